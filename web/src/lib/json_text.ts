/** JSON as it was written. Nothing is read into numbers: those of JavaScript have 15 digits or so, and ids have more. */

/** Strings, marks, and what stands between them: numbers, `true`, `false`, `null`. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** JSON laid out over several lines when it is JSON, else the text as it is. */
export function prettyJson(text: string): string {
  const tokens = tokensOf(text);
  if (tokens === null) return text;
  const laidOut: string[] = [];
  let indent = "\n";
  for (const [i, token] of tokens.entries()) {
    if (isOpening(token)) {
      indent += "  ";
      laidOut.push(token, isClosing(tokens[i + 1]) ? "" : indent);
    } else if (isClosing(token)) {
      indent = indent.slice(0, -2);
      laidOut.push(isOpening(tokens[i - 1]) ? "" : indent, token);
    } else {
      laidOut.push({ ",": `,${indent}`, ":": ": " }[token] ?? plain(token));
    }
  }
  return laidOut.join("");
}

/** Arguments as `name: value` pairs when they are a flat object; null when they must be shown as JSON. */
export function flatArguments(text: string): [string, string][] | null {
  const tokens = tokensOf(text);
  if (tokens === null || tokens[0] !== "{") return null;
  const inner = tokens.slice(1, -1);
  if (inner.some((token) => isOpening(token))) return null;
  const pairs: [string, string][] = [];
  // A name, a colon, a value, a comma.
  for (let i = 0; i + 2 < inner.length; i += 4) pairs.push([textOf(inner[i] ?? ""), textOf(inner[i + 2] ?? "")]);
  return pairs;
}

function tokensOf(text: string): string[] | null {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return text.match(TOKENS);
}

function isOpening(token: string | undefined): boolean {
  return token === "{" || token === "[";
}

function isClosing(token: string | undefined): boolean {
  return token === "}" || token === "]";
}

/** A string without escapes that it does not need; anything else as it stands. */
function plain(token: string): string {
  return token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
}

/** A string's text; anything else as it stands. */
function textOf(token: string): string {
  return token.startsWith('"') ? String(JSON.parse(token)) : token;
}
