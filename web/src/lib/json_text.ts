/** JSON as it was written. Nothing is read into numbers: those of JavaScript have 15 digits or so, and ids have more. */

/** Strings, marks, and what stands between them: numbers, `true`, `false`, `null`. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
/** What JavaScript may write otherwise: numbers of many digits, with a 0 at their end or with an exponent, -0, and names
 * that are numbers, which it puts in their order. */
const DELICATE = /[\d.]{16}|\.\d*0(?!\d)|\d[eE][-+]?\d|-0(?![.\d])|"\d+"\s*:/;

const MOST_PAIRS = 40;

/** JSON laid out over several lines when it is JSON, else the text as it is. */
export function prettyJson(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return DELICATE.test(text) ? laidOut(text.match(TOKENS) ?? []) : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

function laidOut(tokens: readonly string[]): string {
  const parts: string[] = [];
  let indent = "\n";
  for (let i = 0; i < tokens.length; i += 1) {
    const token = tokens[i] ?? "";
    if (isOpening(token)) {
      indent += "  ";
      parts.push(token, isClosing(tokens[i + 1]) ? "" : indent);
    } else if (isClosing(token)) {
      indent = indent.slice(0, -2);
      parts.push(isOpening(tokens[i - 1]) ? "" : indent, token);
    } else if (token === ",") parts.push(token, indent);
    else parts.push(token === ":" ? ": " : plain(token));
  }
  return parts.join("");
}

/** A call's arguments as they are drawn: pairs where they are few and flat, else JSON. */
export function drawnArguments(text: string): [string, string][] | string {
  const flat = flatArguments(text);
  return flat === null || flat.length > MOST_PAIRS ? prettyJson(text) : flat;
}

/** Arguments as `name: value` pairs when they are a flat object; null when they must be shown as JSON. */
export function flatArguments(text: string): [string, string][] | null {
  if (!isJson(text)) return null;
  const tokens = text.match(TOKENS) ?? [];
  if (tokens[0] !== "{") return null;
  const inner = tokens.slice(1, -1);
  if (inner.some((token) => isOpening(token))) return null;
  const pairs: [string, string][] = [];
  // A name, a colon, a value, a comma.
  for (let i = 0; i + 2 < inner.length; i += 4) pairs.push([textOf(inner[i] ?? ""), textOf(inner[i + 2] ?? "")]);
  return pairs;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function isOpening(token: string | undefined): boolean {
  return token === "{" || token === "[";
}

function isClosing(token: string | undefined): boolean {
  return token === "}" || token === "]";
}

/** A string without escapes that it does not need; anything else as it stands. */
function plain(token: string): string {
  return token.includes("\\") ? JSON.stringify(JSON.parse(token)) : token;
}

/** A string's text; anything else as it stands. */
function textOf(token: string): string {
  return token.startsWith('"') ? String(JSON.parse(token)) : token;
}
