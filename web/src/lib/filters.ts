/** Which rollouts are shown, kept in the address so that a view can be sent to a colleague. */
import type { RolloutQuery } from "../api/types";

type Name = keyof RolloutQuery;
/** `whole`: from 0; a list: one of these. */
type Kind = "whole" | "number" | "text" | readonly string[];

const FIELDS: Record<Name, { parameter: string; kind: Kind }> = {
  split: { parameter: "split", kind: ["train", "valid", "test"] },
  step: { parameter: "step", kind: "whole" },
  from_step: { parameter: "from_step", kind: "whole" },
  to_step: { parameter: "to_step", kind: "whole" },
  row_index: { parameter: "row", kind: "whole" },
  outcome: { parameter: "outcome", kind: ["graded", "failed"] },
  min_reward: { parameter: "min_reward", kind: "number" },
  max_reward: { parameter: "max_reward", kind: "number" },
  stop_reason: {
    parameter: "ended",
    kind: ["completed", "tool_calls", "max_turns", "max_tool_calls", "max_tokens", "context_full"],
  },
  failure_code: { parameter: "failure", kind: "text" },
  fault: { parameter: "fault", kind: ["endpoint", "platform"] },
  tool: { parameter: "tool", kind: "text" },
  min_tokens: { parameter: "min_tokens", kind: "whole" },
  max_tokens: { parameter: "max_tokens", kind: "whole" },
  min_duration_s: { parameter: "min_s", kind: "number" },
  max_duration_s: { parameter: "max_s", kind: "number" },
  q: { parameter: "q", kind: "text" },
  contains: { parameter: "contains", kind: "text" },
  sort: { parameter: "sort", kind: ["reward", "completion_tokens", "duration_s", "tool_calls"] },
  order: { parameter: "order", kind: ["asc"] },
};
const NAMES = Object.keys(FIELDS) as Name[];

/** The filter an address means; what makes no sense is left out. */
export function parseFilter(search: string): RolloutQuery {
  const parameters = new URLSearchParams(search);
  return NAMES.reduce<RolloutQuery>(
    (query, name) => changed(query, name, parameters.get(FIELDS[name].parameter) ?? ""),
    {},
  );
}

/** The address of a filter: `?split=valid&step=4`, or nothing. */
export function formatFilter(filter: RolloutQuery): string {
  const parameters = new URLSearchParams();
  for (const name of NAMES) {
    const value = filter[name];
    if (value !== undefined) parameters.set(FIELDS[name].parameter, String(value));
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

/** The filter with one field as somebody typed it; what is empty or makes no sense takes the field away. */
export function changed(filter: RolloutQuery, name: Name, typed: string): RolloutQuery {
  const { [name]: _, ...others } = filter;
  const value = read(FIELDS[name].kind, typed.trim());
  return value === undefined ? others : { ...others, [name]: value };
}

function read(kind: Kind, text: string): string | number | undefined {
  if (text === "") return undefined;
  if (kind === "text") return text.slice(0, 200);
  if (kind === "whole") return wholeNumber(text);
  if (kind === "number") return Number.isFinite(Number(text)) ? Number(text) : undefined;
  return kind.includes(text) ? text : undefined;
}

/** A whole number from 0 as somebody typed it. */
export function wholeNumber(text: string | null): number | undefined {
  return text !== null && /^\d{1,9}$/.test(text.trim()) ? Number(text) : undefined;
}

const LABELS: Partial<Record<Name, string>> = {
  from_step: "from step",
  to_step: "to step",
  min_reward: "reward from",
  max_reward: "reward to",
  stop_reason: "ended",
  failure_code: "failure",
  fault: "fault of",
  tool: "called",
  min_tokens: "tokens from",
  max_tokens: "tokens to",
  min_duration_s: "seconds from",
  max_duration_s: "seconds to",
  contains: "contains",
};

/** What is hidden behind "more filters" and yet in force: name and words. */
export function hiddenFilters(filter: RolloutQuery): [Name, string][] {
  return NAMES.flatMap((name): [Name, string][] => {
    const label = LABELS[name];
    const value = filter[name];
    return label === undefined || value === undefined ? [] : [[name, `${label} ${String(value).replaceAll("_", " ")}`]];
  });
}

/** The filter without its order. */
export function unsorted(filter: RolloutQuery): RolloutQuery {
  const { sort: _, order: __, ...rest } = filter;
  return rest;
}
