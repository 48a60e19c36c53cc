/** Server-sent events of one job, read with fetch: EventSource cannot begin at a position, nor tell a 401. */
import { createParser } from "eventsource-parser";
import { parseExactIn } from "./exact_json";
import { ApiError, at, errorOf, UNREACHABLE } from "./http";
import { EXACT_IN_JOBS, JOBS_PATH } from "./jobs";
import { hear, MOST_SILENT_MS } from "./platform_time";
import type { Job, JobEvent, RewardEstimate, RolloutStats, Step, StepRecord } from "./types";

export type StreamMessage =
  { type: "job"; data: Job } | { type: "step"; data: Step } | { type: "event"; data: JobEvent };

export interface StreamHandlers {
  onOpen(): void;
  /** All messages of one chunk, in order: a long history comes in few calls. And how far they come. */
  onMessages(messages: StreamMessage[], lastEventId: string | undefined): void;
}

export interface StreamOptions {
  jobId: string;
  lastEventId: string | undefined;
  signal: AbortSignal;
}

const TYPES: readonly string[] = ["job", "step", "event"];

/** Reads until the server closes the stream; the last event id seen. Throws ApiError. */
export async function readStream(options: StreamOptions, handlers: StreamHandlers): Promise<string | undefined> {
  let lastEventId = options.lastEventId;
  let messages: StreamMessage[] = [];
  const parser = createParser({
    onEvent: (event) => {
      lastEventId = event.id ?? lastEventId;
      const message = parseMessage(event.event, event.data);
      if (message) messages.push(message);
    },
  });
  const line = lineOf(options.signal);
  try {
    const body = await openStream({ ...options, signal: line.signal });
    handlers.onOpen();
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
        line.hear();
        parser.feed(chunk.value);
        if (messages.length) handlers.onMessages(messages, lastEventId);
        messages = [];
      }
    } catch {
      if (!options.signal.aborted) throw new StreamBroken(lastEventId);
    }
  } finally {
    line.close();
  }
  return lastEventId;
}

interface Line {
  signal: AbortSignal;
  /** Something came. */
  hear(): void;
  close(): void;
}

/** Given up with the signal, or where nothing was heard for too long: a platform that stands still, or a network
 * that has forgotten the connection, breaks nothing. */
function lineOf(signal: AbortSignal): Line {
  const own = new AbortController();
  const giveUp = () => own.abort();
  let timer = setTimeout(giveUp, MOST_SILENT_MS);
  signal.addEventListener("abort", giveUp, { once: true });
  return {
    signal: own.signal,
    hear: () => {
      hear();
      clearTimeout(timer);
      timer = setTimeout(giveUp, MOST_SILENT_MS);
    },
    close: () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", giveUp);
      giveUp();
    },
  };
}

/** The connection broke after it was open; carries where to go on. */
export class StreamBroken extends Error {
  override readonly name = "StreamBroken";
  readonly lastEventId: string | undefined;

  constructor(lastEventId: string | undefined) {
    super("The live connection broke.");
    this.lastEventId = lastEventId;
  }
}

/** A message of a known type, or null: newer servers may send more. */
export function parseMessage(type: string | undefined, data: string): StreamMessage | null {
  if (type === undefined || !TYPES.includes(type)) return null;
  const said = type === "job" ? parseExactIn(data, EXACT_IN_JOBS) : (JSON.parse(data) as unknown);
  return { type, data: type === "step" ? drawn(said as WholeStep) : said } as StreamMessage;
}

/** A step as the stream has it, with its whole record. */
type WholeStep = Omit<Step, "record"> & { record: Omit<StepRecord, "train" | "valid"> & WholeSplits };
type WholeSplits = Record<"train" | "valid", WholeStats | null>;
/** Its mean is over rollouts, that of its estimate over rows. */
type WholeStats = Omit<RolloutStats, "reward_low" | "reward_high"> & { reward_estimate?: RewardEstimate | null };

/** What the curves have of it: a step that was told must look as it does when the page is loaded again. */
function drawn({ step, created_at, record: { train, valid, timing } }: WholeStep): Step {
  return { step, created_at, record: { train: drawnOf(train), valid: drawnOf(valid), timing } };
}

function drawnOf(stats: WholeStats | null): RolloutStats | null {
  if (stats === null) return null;
  const estimate = stats.reward_estimate;
  return {
    rollouts: stats.rollouts,
    excluded: stats.excluded,
    failures_by_code: stats.failures_by_code,
    reward_mean: estimate?.mean ?? stats.reward_mean,
    reward_low: estimate?.low ?? null,
    reward_high: estimate?.high ?? null,
    reward_mean_if_failures_were_zero: stats.reward_mean_if_failures_were_zero,
    grader_scores_mean: stats.grader_scores_mean,
    completion_tokens_mean: stats.completion_tokens_mean,
    tool_calls_mean: stats.tool_calls_mean,
    tools: stats.tools.map(({ name, calls_per_rollout_mean }) => ({ name, calls_per_rollout_mean })),
  };
}

async function openStream(options: StreamOptions): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (options.lastEventId !== undefined) headers["Last-Event-ID"] = options.lastEventId;
  const url = JOBS_PATH + at(options.jobId, "stream");
  const response = await fetch(url, { headers, signal: options.signal }).catch(() => {
    throw new ApiError(0, UNREACHABLE);
  });
  if (!response.ok || response.body === null) throw await errorOf(response);
  return response.body;
}
