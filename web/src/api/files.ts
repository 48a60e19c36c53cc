/** The typed way to files: sending, listing, reading the first lines of one. */
import { ApiError, at, call, errorOf, get, type Page, send, UNREACHABLE } from "./http";
import type { FileProblem, FileUse, Purpose, StoredFile } from "./types";

const FILES_PATH = "/v1/files";

export interface UploadOptions {
  purpose: Purpose;
  /** What of the bytes is on its way, in [0, 1]. At 1 the platform reads the lines, which takes a while for many. */
  onProgress?(share: number): void;
  signal?: AbortSignal;
}

/** A file on its way; `useUpload` makes one. */
export interface Sending {
  /** The one that is sent now. */
  file: File | null;
  /** What of it is sent, in [0, 1]. */
  share: number;
  /** Why the last one was not taken. */
  error: Error | null;
  wasStopped: boolean;
  start(file: File): void;
  stop(): void;
}

export const filesApi = {
  /** Newest first. */
  list: (purpose: Purpose | undefined, after?: string, limit = 100) =>
    get<Page<StoredFile>>(FILES_PATH, { purpose, after, limit }),
  get: (id: string) => get<StoredFile>(FILES_PATH + at(id)),
  /** The lines that are no rows, with their reasons. */
  problems: (id: string, after?: string) => get<Page<FileProblem>>(`${FILES_PATH}${at(id)}/problems`, { after }),
  /** Where it is used, newest first. */
  uses: async (id: string) => (await get<{ data: FileUse[] }>(`/v1/dashboard/files${at(id)}/uses`)).data,
  remove: (id: string) => call<{ deleted: boolean }>("DELETE", FILES_PATH + at(id)),
  content: async (id: string): Promise<Blob> => (await send("GET", `${FILES_PATH}${at(id)}/content`)).blob(),
  firstLines,
  upload,
};

/** Sends a file. Throws ApiError; with an `AbortError` where it was called off. */
export function upload(file: File, { purpose, onProgress, signal }: UploadOptions): Promise<StoredFile> {
  const form = new FormData();
  form.append("purpose", purpose);
  form.append("file", file);
  // Not fetch: it does not tell how far it is.
  const request = new XMLHttpRequest();
  return new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) onProgress?.(event.loaded / event.total);
    });
    request.addEventListener("error", () => reject(new ApiError(0, UNREACHABLE)));
    request.addEventListener("abort", () => reject(new DOMException("The upload was stopped.", "AbortError")));
    request.addEventListener("load", () => {
      const reply = new Response(request.responseText, { status: request.status });
      if (reply.ok) void reply.json().then((stored) => resolve(stored as StoredFile), reject);
      else void errorOf(reply).then(reject, reject);
    });
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.open("POST", FILES_PATH);
    request.send(form);
  });
}

/** The first lines of a file that hold anything, without reading the rest of it: `most` at most, within `mostBytes`. */
async function firstLines(id: string, most: number, mostBytes = 2 << 20): Promise<string[]> {
  const { body } = await send("GET", `${FILES_PATH}${at(id)}/content`);
  if (body === null) return [];
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    text += decoder.decode(value, { stream: !done });
    size += value?.length ?? 0;
    const lines = text.split("\n");
    const whole = (done ? lines : lines.slice(0, -1)).filter((line) => line.trim());
    if (!done && whole.length < most && size < mostBytes) continue;
    await reader.cancel();
    return whole.slice(0, most);
  }
}
