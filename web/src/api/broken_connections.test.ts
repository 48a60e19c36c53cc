import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { chat, type ChatEvent } from "./chat";
import { ApiError } from "./http";
import { MOST_SILENT_MS } from "./platform_time";
import { condition } from "./session";
import { readStream, StreamBroken, type StreamMessage } from "./stream";

const PATIENCE_MS = 50;
let platform: Server;

/** Says one thing of a job and falls silent, with the connection open; ends a chat in the middle; answers nothing else at
 * all. */
beforeEach(async () => {
  platform = createServer((request, response) => {
    if (request.url?.endsWith("/stream")) response.write('event: job\nid: 7\ndata: {"id": "ftjob-1"}\n\n');
    if (request.url?.endsWith("/completions")) response.end('data: {"choices": [{"delta": {"content": "Sev"}}]}\n\n');
  });
  await new Promise<void>((resolve) => platform.listen(0, "127.0.0.1", resolve));
  const { port } = platform.address() as AddressInfo;
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, init));
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  platform.closeAllConnections();
  platform.close();
});

test("a stream that falls silent is broken, and goes on where it was", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const told: StreamMessage[] = [];
  const onMessages = (messages: StreamMessage[]) => {
    told.push(...messages);
    queueMicrotask(() => vi.advanceTimersByTime(MOST_SILENT_MS));
  };
  const options = { jobId: "ftjob-1", lastEventId: undefined, signal: new AbortController().signal };
  const error: unknown = await readStream(options, { onOpen: () => undefined, onMessages }).catch(
    (one: unknown) => one,
  );
  expect(told).toEqual([{ type: "job", data: { id: "ftjob-1" } }]);
  expect(error).toBeInstanceOf(StreamBroken);
  expect(error).toMatchObject({ lastEventId: "7" });
});

test("a platform that is there and answers nobody is gone", async () => {
  const error: unknown = await condition(PATIENCE_MS).catch((one: unknown) => one);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ status: 0 });
});

test("an answer that ends before its end has failed", async () => {
  const told: ChatEvent[] = [];
  const order = { model: "tiny", messages: [], jobId: null, temperature: null };
  const answering = chat(order, (event) => told.push(event), new AbortController().signal);
  await expect(answering).rejects.toThrow("The answer broke off.");
  expect(told).toEqual([{ type: "text", turn: 0, text: "Sev" }]);
});
