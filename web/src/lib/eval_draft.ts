/** A new eval while it is written, and the order that it makes. */
import { type GraderDraft, isObject, type Json, type JsonObject, NEW_DRAFT } from "./draft";
import { ExactNumber, parseExact } from "../api/exact_json";
import { number, toGrader } from "./draft_order";

export interface EvalDraft {
  name: string;
  /** A JSON Schema as text: what each item holds. */
  itemSchema: string;
  grader: GraderDraft;
  criterionName: string;
  /** The lowest score that passes; empty: the grader's own. */
  threshold: string;
}

const FIRST_SCHEMA: JsonObject = {
  type: "object",
  properties: { question: { type: "string" }, answer: { type: "string" } },
  required: ["question", "answer"],
};

export const NEW_EVAL: EvalDraft = {
  name: "",
  itemSchema: JSON.stringify(FIRST_SCHEMA, null, 2),
  grader: NEW_DRAFT.grader,
  criterionName: "",
  threshold: "",
};

/** The body of `POST /v1/evals`; the API judges what is in it. */
export function toEvalOrder(draft: EvalDraft): JsonObject {
  const name = draft.name.trim();
  const criterion = toGrader(draft.grader);
  // A registered grader is taken as it is.
  const own: JsonObject =
    draft.grader.kind === "registered"
      ? {}
      : {
          ...(draft.criterionName.trim() && { name: draft.criterionName.trim() }),
          ...(draft.threshold.trim() && { pass_threshold: number(draft.threshold) }),
        };
  return {
    ...(name && { name }),
    data_source_config: { type: "custom", item_schema: parsed(draft.itemSchema), include_sample_schema: true },
    testing_criteria: [{ ...criterion, ...own }],
  };
}

/** The item of a line: of a file of items, or of a dataset to train on, whose prompt is no part of it. */
function itemOfLine(line: string): JsonObject | null {
  const row = parsed(line);
  if (!isObject(row)) return null;
  if (isObject(row["item"])) return row["item"];
  const { messages: _, ...item } = row;
  return item;
}

export function itemsOf(lines: readonly string[]): JsonObject[] {
  return lines.map(itemOfLine).filter((item) => item !== null);
}

/** What these items have in common, as a JSON Schema: a field is required that every one has. */
export function schemaOf(items: readonly JsonObject[]): JsonObject {
  const names = [...new Set(items.flatMap((item) => Object.keys(item)))];
  const typesOf = (name: string) => [
    ...new Set(items.flatMap((item) => (name in item ? [typeOf(item[name] ?? null)] : []))),
  ];
  const properties = names.map((name): [string, Json] => {
    const types = typesOf(name);
    return [name, { type: types.length === 1 ? (types[0] ?? "null") : types }];
  });
  const required = names.filter((name) => items.every((item) => name in item));
  return { type: "object", properties: Object.fromEntries(properties), required };
}

function typeOf(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return value instanceof ExactNumber ? "number" : typeof value;
}

function parsed(text: string): Json {
  try {
    return parseExact(text) as Json;
  } catch {
    return text;
  }
}
