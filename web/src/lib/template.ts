/** A grader's template on a real row, as the platform fills it in. */
import { isObject, type Json, type JsonObject } from "./draft";
import { parseExact } from "../api/exact_json";

export interface Piece {
  text: string;
  /** `value`: what stood for it was a variable; `missing`: the variable names nothing in this row. */
  kind: "text" | "value" | "missing";
}

export interface Shown {
  item: JsonObject;
  sample: JsonObject;
}

const STEP = /\.\s*([^.[\]{}()|"'\s]+(?:[ \t]+[^.[\]{}()|"'\s]+)*)|\[\s*(-?\d{1,9})\s*\]|\["([^"]*)"\]|\['([^']*)'\]/y;

/** The template's text with every value in its place. */
export function filledIn(template: string, { item, sample }: Shown): Piece[] {
  const pieces = template.split(/\{\{(.*?)\}\}/s).map((piece, i): Piece => {
    if (i % 2 === 0) return { text: piece, kind: "text" };
    const value = find(piece.trim(), { item, sample });
    if (value === undefined) return { text: `{{${piece}}}`, kind: "missing" };
    return { text: typeof value === "string" ? value : JSON.stringify(value), kind: "value" };
  });
  return pieces.filter((piece) => piece.text !== "");
}

/** What a grader is shown of an answer, as far as the answer alone tells it. */
export function sampleOf(answer: string): JsonObject {
  let parsed: Json = null;
  try {
    parsed = parseExact(answer) as Json;
  } catch {
    // An answer that is no JSON has none.
  }
  return { output_text: answer, output_json: parsed };
}

function find(source: string, spaces: Shown): Json | undefined {
  const space = /^(item|sample)/.exec(source)?.[1];
  if (space !== "item" && space !== "sample") return undefined;
  let value: Json | undefined = spaces[space];
  for (let at = space.length; at < source.length; at = STEP.lastIndex) {
    STEP.lastIndex = at;
    const step = STEP.exec(source);
    if (step === null) return undefined;
    value = step[2] === undefined ? child(value, step[1] ?? step[3] ?? step[4] ?? "") : part(value, Number(step[2]));
    if (value === undefined) return undefined;
  }
  return value;
}

function child(value: Json | undefined, key: string): Json | undefined {
  return isObject(value) ? value[key] : undefined;
}

function part(value: Json | undefined, index: number): Json | undefined {
  return Array.isArray(value) ? value.at(index) : undefined;
}
