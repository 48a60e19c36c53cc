/** What the pages ask of files, and sending one. */
import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useLayoutEffect, useRef, useState } from "react";
import { filesApi, type Sending } from "../api/files";
import type { Purpose, StoredFile } from "../api/types";

/** Whatever was asked of files; stale once one comes or goes. */
export const FILES = ["files"];

/** The newest files of a purpose. */
export function useFiles(purpose: Purpose) {
  return useQuery({ queryKey: [...FILES, purpose], queryFn: () => filesApi.list(purpose) });
}

/** The first lines of a file; they do not change. */
export function useFirstLines(id: string | null, most: number) {
  return useQuery({
    queryKey: [...FILES, "lines", id, most],
    queryFn: () => filesApi.firstLines(id ?? "", most),
    enabled: id !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** All files, newest first, page by page. */
export function useAllFiles(purpose: Purpose | undefined) {
  return useInfiniteQuery({
    queryKey: [...FILES, "all", purpose],
    queryFn: ({ pageParam }) => filesApi.list(purpose, pageParam, 50),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    placeholderData: keepPreviousData,
  });
}

export function useFile(id: string) {
  return useQuery({ queryKey: [...FILES, id], queryFn: () => filesApi.get(id) });
}

export function useFileUses(id: string) {
  return useQuery({ queryKey: [...FILES, id, "uses"], queryFn: () => filesApi.uses(id) });
}

/** The lines of a file that are no rows. */
export function useFileProblems(id: string, isWanted: boolean) {
  return useInfiniteQuery({
    queryKey: [...FILES, id, "problems"],
    queryFn: ({ pageParam }) => filesApi.problems(id, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    enabled: isWanted,
  });
}

export function useDeleteFile() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: filesApi.remove,
    onSuccess: () => cache.invalidateQueries({ queryKey: [...FILES, "all"] }),
  });
}

/** Sends a file at a time, for `components/Upload`. Of one that is stored only a page hears that is still open. */
export function useUpload(purpose: Purpose, onUploaded: (file: StoredFile) => void): Sending {
  const cache = useQueryClient();
  const [share, setShare] = useState(0);
  const calledOff = useRef<AbortController>(null);
  // What the page makes of it is told by what it shows when the file is stored, not when it was chosen.
  const latest = useRef(onUploaded);
  useLayoutEffect(() => {
    latest.current = onUploaded;
  });
  const sending = useMutation({
    mutationFn: (file: File) => {
      calledOff.current = new AbortController();
      setShare(0);
      return filesApi.upload(file, { purpose, onProgress: setShare, signal: calledOff.current.signal });
    },
    onSuccess: () => void cache.invalidateQueries({ queryKey: FILES }),
  });
  const wasStopped = sending.error?.name === "AbortError";
  return {
    file: sending.isPending ? sending.variables : null,
    share,
    error: wasStopped ? null : sending.error,
    wasStopped,
    start: (file) => sending.mutate(file, { onSuccess: (stored) => latest.current(stored) }),
    stop: () => calledOff.current?.abort(),
  };
}
