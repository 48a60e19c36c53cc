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

  toJSON(): unknown {
    return rawJSON ? rawJSON(this.text) : Number(this.text);
  }
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
