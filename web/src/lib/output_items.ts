/** Output items of a run of an eval: what was said, and what each grader made of it. */
import type { OutputItem } from "../api/types";
import { fixed } from "./format";
import { fieldsOf, type Fields, number, string, text } from "./json_fields";

export interface ItemMessage {
  role: string;
  content: string;
  calls: { id: string; name: string; arguments: string }[];
}

/** What an output item's sample says, from its prompt or its answer. */
export function messagesOf(sample: OutputItem["sample"], part: "input" | "output"): ItemMessage[] {
  const messages = Array.isArray(sample[part]) ? (sample[part] as Fields[]) : [];
  return messages.map((message) => ({
    role: text(message.role) || "assistant",
    content: text(message.content),
    calls: (Array.isArray(message.tool_calls) ? (message.tool_calls as Fields[]) : []).map((call) => ({
      id: text(call.id),
      name: text(fieldsOf(call.function).name),
      arguments: text(fieldsOf(call.function).arguments),
    })),
  }));
}

/** The last thing said, in a line. */
export function answerOf(item: OutputItem): string {
  const last = messagesOf(item.sample, "output").at(-1);
  if (!last) return "";
  return last.content || last.calls.map((call) => `${call.name}(${call.arguments})`).join(", ");
}

/** An item in a line: its question where it has one, or else what it holds. */
export function itemInALine(item: OutputItem["datasource_item"]): string {
  const known = ["question", "prompt", "input", "query", "problem"].map((name) => item[name]);
  const found = known.find((value) => typeof value === "string");
  return typeof found === "string" ? found : JSON.stringify(item);
}

/** What a grader, or the part with this name, was sent and answered. */
export interface GraderExchange {
  part: string | null;
  request: string | null;
  reply: string | null;
}

export interface ResultView {
  id: string;
  score: number | null;
  passed: boolean;
  /** Why there is no verdict, with whose doing that is. */
  error: string | null;
  /** What went wrong with the answer. */
  details: string | null;
  exchanges: GraderExchange[];
  parts: { name: string; score: number | null }[];
}

/** What became of an output item under each criterion. */
export function resultsOf(item: OutputItem): ResultView[] {
  return item.results.map((result) => {
    const error = result.error === null ? null : fieldsOf(result.error);
    return {
      id: text(result.name),
      score: number(result.score),
      passed: result.passed === true,
      error: error && `${text(error.message)} (${text(error.stage)}: ${text(error.code).replaceAll("_", " ")})`,
      details: string(result.error_details),
      exchanges: exchangesOf(result),
      parts: Object.entries(fieldsOf(result.sub_scores)).map(([name, score]) => ({ name, score: number(score) })),
    };
  });
}

function exchangesOf(result: OutputItem["results"][number]): GraderExchange[] {
  const [requests, replies] = [fieldsOf(result.sub_requests), fieldsOf(result.sub_replies)];
  const parts = [...new Set([...Object.keys(requests), ...Object.keys(replies)])];
  const all = [
    { part: null, request: string(result.request), reply: string(result.reply) },
    ...parts.map((part) => ({ part, request: string(requests[part]), reply: string(replies[part]) })),
  ];
  return all.filter((one) => one.request !== null || one.reply !== null);
}

/** A score as people read it. */
export function scoreWords(score: number | null): string {
  return score === null ? "no score" : fixed(score, Number.isInteger(score) ? 0 : 3);
}
