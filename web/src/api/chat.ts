/** Talking to a model: whole conversations with a job's real tools, or plain chat completions. */
import { createParser } from "eventsource-parser";
import { ApiError, at, errorOf, UNREACHABLE } from "./http";
import { JOBS_PATH } from "./jobs";
import type { PlaygroundResult } from "./types";

const BROKEN_OFF = "The answer broke off.";

export interface ChatMessage {
  role: string;
  content: string | null;
}

/** What happens in a conversation, in the order it happens. Turns count from 0. */
export type ChatEvent =
  | { type: "text"; turn: number; text: string }
  | { type: "turn"; turn: number; content: string; reasoning_content: string | null }
  | { type: "call"; turn: number; call_id: string; name: string; arguments: string }
  | {
      type: "result";
      call_id: string;
      output: string;
      error_code: string | null;
      status: number | null;
      attempts: number;
      latency_s: number;
    }
  | { type: "failure"; failure: { stage: string; code: string; message: string } }
  | { type: "end"; conversation: Pick<PlaygroundResult, "messages" | "stop_reason" | "usage" | "duration_s"> };

export interface ChatOrder {
  model: string;
  messages: readonly object[];
  /** Whose tools are called; null: none. */
  jobId: string | null;
  temperature: number | null;
}

/** Sends what was said and tells what happens, until it is over. Throws ApiError. */
export async function chat(order: ChatOrder, onEvent: (event: ChatEvent) => void, signal: AbortSignal): Promise<void> {
  const path = order.jobId === null ? "/v1/chat/completions" : `${JOBS_PATH}${at(order.jobId)}/playground`;
  const body = {
    model: order.model,
    messages: order.messages,
    stream: true,
    ...(order.temperature !== null && { temperature: order.temperature }),
  };
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new ApiError(0, UNREACHABLE);
  });
  if (!response.ok || response.body === null) throw await errorOf(response);
  let hasEnded = false;
  const tell = (event: ChatEvent) => {
    hasEnded ||= event.type === "end";
    onEvent(event);
  };
  const read = order.jobId === null ? completionReader(tell) : readPlayground(tell);
  let problem: ApiError | null = null;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      problem ??= event === "error" ? refusal(data) : read(data);
    },
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) parser.feed(chunk.value);
  if (problem) throw problem;
  // A part of an answer is no answer, however well it ends.
  if (!hasEnded) throw new ApiError(0, BROKEN_OFF);
}

type Read = (data: string) => ApiError | null;

const readPlayground =
  (onEvent: (event: ChatEvent) => void): Read =>
  (data) => {
    onEvent(JSON.parse(data) as ChatEvent);
    return null;
  };

interface Chunk {
  error?: unknown;
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null };
    finish_reason?: string | null;
  }[];
}

/** Chunks of a chat completion as the events of a conversation of one turn. */
export function completionReader(onEvent: (event: ChatEvent) => void): Read {
  const startedAt = performance.now();
  let content = "";
  let thought = "";
  let finish: string | null = null;
  return (data) => {
    if (data === "[DONE]") {
      onEvent({ type: "turn", turn: 0, content, reasoning_content: thought || null });
      const usage = { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0, reasoning_tokens: 0 };
      onEvent({
        type: "end",
        conversation: {
          messages: [{ role: "assistant", content }],
          stop_reason: finish === "length" ? "max_tokens" : "completed",
          usage,
          duration_s: (performance.now() - startedAt) / 1000,
        },
      });
      return null;
    }
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) return refusal(data);
    const [choice] = chunk.choices ?? [];
    finish = choice?.finish_reason ?? finish;
    thought += choice?.delta?.reasoning_content ?? "";
    const text = choice?.delta?.content;
    if (text) {
      content += text;
      onEvent({ type: "text", turn: 0, text });
    }
    return null;
  };
}

function refusal(data: string): ApiError {
  const { error } = JSON.parse(data) as { error?: { message?: string; code?: string } };
  return new ApiError(200, error?.message ?? BROKEN_OFF, error?.code ?? null);
}
