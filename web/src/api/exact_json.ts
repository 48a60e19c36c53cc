/** JSON with numbers that stay as they were written: those of JavaScript have 15 digits or so, and ids have more. */

/** Browsers have it since 2023 to 2025; in older ones numbers are what they always were. */
const { rawJSON } = JSON as { rawJSON?(text: string): object };
const ALL_HAVE = 15;

/** A number that JavaScript would make another one of. */
export class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }

  toJSON(): unknown {
    return rawJSON ? rawJSON(this.text) : Number(this.text);
  }
}

/** A reply in which only these fields, wherever they are, hold values of customers: their numbers as `parseExact` has
 * them, all others as they are. Throws SyntaxError. */
export function parseExactIn(text: string, fields: readonly string[]): unknown {
  return withExact(JSON.parse(text), parseExact(text), fields);
}

/** `plain`, with these fields as they are in `exact`: the same value otherwise. */
export function withExact(plain: unknown, exact: unknown, fields: readonly string[]): unknown {
  if (Array.isArray(plain)) return plain.map((one, i) => withExact(one, (exact as unknown[])[i], fields));
  if (typeof plain !== "object" || plain === null) return plain;
  const other = exact as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [
      name,
      fields.includes(name) ? other[name] : withExact(value, other[name], fields),
    ]),
  );
}

/** The value, its numbers such that `JSON.stringify` writes them as they were. Throws SyntaxError. */
export function parseExact(text: string): unknown {
  return JSON.parse(text, asWritten);
}

function asWritten(_: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || rawJSON === undefined || context?.source === undefined) return value;
  const digits = context.source.replace(/[eE].*$/, "").replace(/^[-0.]*|\./g, "");
  return digits.length <= ALL_HAVE && Number.isFinite(value) ? value : new ExactNumber(context.source);
}
