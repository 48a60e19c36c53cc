/** Parts of JSON whose shape is not known. */
export type Fields = Record<string, unknown>;

/** A string as it is. */
export function string(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

/** A string as it is, anything else as JSON. */
export function text(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A number as it is. */
export function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** An object's fields; none of anything else. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}
