/** The order that a draft makes. The API judges what is in it. */
import {
  type Draft,
  type GraderDraft,
  type HeaderDraft,
  isObject,
  type Json,
  type JsonObject,
  type LeafDraft,
  type ToolDraft,
} from "./draft";
import { parseExact } from "../api/exact_json";
import { LEAF_FORMS } from "./grader_forms";

/** The body of `POST /v1/fine_tuning/jobs`. */
export function toOrder(draft: Draft): JsonObject {
  const hyperparameters = filled(draft.hyperparameters, number);
  const more = json(draft.more);
  const reinforcement: JsonObject = {
    grader: toGrader(draft.grader),
    ...(draft.tools.length > 0 && { tools: draft.tools.map(toTool) }),
    ...(draft.max_episode_steps.trim() && { max_episode_steps: number(draft.max_episode_steps) }),
    ...(Object.keys(hyperparameters).length > 0 && { hyperparameters }),
    ...(isObject(more) && more),
  };
  const { model, training_file, validation_file, test_file, suffix } = draft;
  return {
    ...filled({ model, training_file, validation_file, test_file, suffix }, String),
    ...(draft.seed.trim() && { seed: number(draft.seed) }),
    ...draft.top,
    method: { type: "reinforcement", reinforcement },
  };
}

export function toTool(tool: ToolDraft): JsonObject {
  if (tool.registered) return { id: tool.registered };
  const { name, server_url, description } = tool;
  return {
    ...filled({ name, server_url, description }, String),
    ...(tool.parameters.trim() && { parameters: json(tool.parameters) }),
    ...headersOf(tool.headers),
    ...tool.more,
  };
}

export function toGrader(grader: GraderDraft): JsonObject {
  if (grader.kind === "registered") return { id: grader.registered };
  if (grader.kind !== "multi") return toLeaf(grader.leaf);
  const graders = Object.fromEntries(grader.parts.map(({ name, leaf }) => [name, toLeaf(leaf)]));
  return { type: "multi", graders, calculate_output: grader.formula, ...grader.more };
}

function toLeaf(leaf: LeafDraft): JsonObject {
  const form = LEAF_FORMS[leaf.type];
  const values = form.fields.flatMap(({ name, input }): [string, Json][] => {
    const text = leaf.values[name] ?? "";
    if (!text.trim()) return [];
    if (input === "lines") return [[name, parts(text, "\n")]];
    return [[name, input === "numbers" ? parts(text, ",").map(number) : text]];
  });
  const input = leaf.messages.map(({ role, content }) => ({ role, content }));
  return {
    type: leaf.type,
    ...Object.fromEntries(values),
    ...(form.hasMessages && { input }),
    ...(form.hasHeaders && headersOf(leaf.headers)),
    ...leaf.more,
  };
}

/** A number where it is one; else the text, which the API refuses in its own words. So are whole numbers that have more
 * digits than JavaScript keeps: another seed than the one that is seen would be sent. */
export function number(text: string): Json {
  const value = Number(text);
  const isKept = Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
  return text.trim() && isKept ? value : text.trim();
}

function json(text: string): Json {
  try {
    return parseExact(text) as Json;
  } catch {
    return text;
  }
}

function headersOf(headers: readonly HeaderDraft[]): JsonObject {
  const named = headers.filter((header) => header.name.trim());
  return named.length ? { headers: Object.fromEntries(named.map(({ name, value }) => [name.trim(), value])) } : {};
}

function filled(values: Record<string, string>, to: (text: string) => Json): JsonObject {
  const given = Object.entries(values).filter(([, text]) => text.trim());
  return Object.fromEntries(given.map(([name, text]) => [name, to(text.trim())]));
}

function parts(text: string, separator: string): string[] {
  return text
    .split(separator)
    .map((part) => part.trim())
    .filter(Boolean);
}

/** What the order lacks before anybody can be asked about it, or would lose on its way; empty: nothing. */
export function unfinished(draft: Draft): string[] {
  const leaves = draft.grader.kind === "multi" ? draft.grader.parts.map((part) => part.leaf) : [draft.grader.leaf];
  const headers = [
    ...draft.tools.filter((tool) => !tool.registered).flatMap((tool) => tool.headers),
    ...(draft.grader.kind === "registered" ? [] : leaves.flatMap((leaf) => leaf.headers)),
  ];
  const lost = headers.filter(({ name, value }) => name.trim() && !value).map(({ name }) => name);
  const names = draft.grader.parts.map((part) => part.name.trim());
  return [
    ...(draft.model ? [] : ["Choose a base model."]),
    ...(draft.training_file ? [] : ["Choose a dataset to train on."]),
    ...(lost.length
      ? [`Type the values of the headers ${lost.join(", ")}: they are shown to nobody, so not to you.`]
      : []),
    ...(draft.more.trim() && !isObject(json(draft.more)) ? ["The further fields are no JSON object."] : []),
    ...(draft.grader.kind === "multi" && new Set(names).size < names.length
      ? ["No two parts of the grader have one name."]
      : []),
  ];
}

/** What the API says of a field, said at the field itself: without its name. */
export function atField(message: string): string {
  if (message.startsWith("Missing required parameter")) return "This is needed.";
  const reason = /^Invalid '[^']*': (.*)$/s.exec(message)?.[1];
  return reason === undefined ? message : reason.charAt(0).toUpperCase() + reason.slice(1);
}
