/** A conversation with a model as it grows. */
import type { ChatEvent } from "../api/chat";

export interface ChatCall {
  id: string;
  name: string;
  arguments: string;
  /** Null until the tool has answered. */
  output: string | null;
  /** The model's mistake, where it was one. */
  errorCode: string | null;
  /** How the call went, in a line. */
  note: string;
}

export interface ChatTurn {
  text: string;
  thought: string | null;
  calls: ChatCall[];
}

/** What was said, and all that came of it. */
export interface Exchange {
  said: string;
  turns: ChatTurn[];
  /** To be sent along the next time; null before it is over. */
  added: readonly object[] | null;
  /** Why it could not go on. */
  failure: string | null;
  /** How it ended, in a line. */
  end: string | null;
}

export function beginExchange(said: string): Exchange {
  return { said, turns: [], added: null, failure: null, end: null };
}

/** The exchange after one more event. */
export function withEvent(exchange: Exchange, event: ChatEvent): Exchange {
  switch (event.type) {
    case "text":
      return inTurn(exchange, event.turn, (turn) => ({ ...turn, text: turn.text + event.text }));
    case "turn":
      // The text of a turn without what only told of calls and thoughts.
      return inTurn(exchange, event.turn, (turn) => ({
        ...turn,
        text: event.content,
        thought: event.reasoning_content,
      }));
    case "call":
      return inTurn(exchange, event.turn, (turn) => ({
        ...turn,
        calls: [
          ...turn.calls,
          { id: event.call_id, name: event.name, arguments: event.arguments, output: null, errorCode: null, note: "" },
        ],
      }));
    case "result":
      return answered(exchange, event);
    case "failure":
      return { ...exchange, failure: `${event.failure.message} (${event.failure.stage}, ${event.failure.code})` };
    case "end":
      return { ...exchange, added: event.conversation.messages, end: endOf(event.conversation) };
  }
}

/** All that was said so far, as the API takes it. An exchange that is not over, or failed, is left out. */
export function history(system: string, exchanges: readonly Exchange[], said: string): object[] {
  const before = exchanges
    .filter((one) => one.added !== null && one.failure === null)
    .flatMap((one) => [{ role: "user", content: one.said }, ...(one.added ?? [])]);
  const rules = system.trim() ? [{ role: "developer", content: system }] : [];
  return [...rules, ...before, { role: "user", content: said }];
}

type Result = Extract<ChatEvent, { type: "result" }>;

function answered(exchange: Exchange, event: Result): Exchange {
  const tries = event.attempts > 1 ? `${event.attempts} attempts, ` : "";
  const status = event.status === null ? "" : `HTTP ${event.status}, `;
  const note = `${status}${tries}${event.latency_s.toFixed(2)} s`;
  return {
    ...exchange,
    turns: exchange.turns.map((turn) => ({
      ...turn,
      calls: turn.calls.map((call) =>
        call.id === event.call_id ? { ...call, output: event.output, errorCode: event.error_code, note } : call,
      ),
    })),
  };
}

function inTurn(exchange: Exchange, number: number, change: (turn: ChatTurn) => ChatTurn): Exchange {
  const turns = [...exchange.turns];
  while (turns.length <= number) turns.push({ text: "", thought: null, calls: [] });
  return { ...exchange, turns: turns.map((turn, i) => (i === number ? change(turn) : turn)) };
}

function endOf({ stop_reason, usage, duration_s }: Extract<ChatEvent, { type: "end" }>["conversation"]): string {
  const parts = [`${duration_s.toFixed(1)} s`];
  if (usage.completion_tokens > 0)
    parts.unshift(`${usage.prompt_tokens} tokens read, ${usage.completion_tokens} written`);
  if (stop_reason !== null && stop_reason !== "completed")
    parts.unshift(`stopped: ${stop_reason.replaceAll("_", " ")}`);
  return parts.join(", ");
}
