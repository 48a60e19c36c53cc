/** The same order as code to copy. Secrets are not in it: it reads them from the environment. */
import { isObject, type Json, type JsonObject } from "./draft";

/** Fields that `jobs.create` of the official SDK has arguments for. */
const ARGUMENTS = ["model", "training_file", "validation_file", "suffix", "seed", "metadata", "integrations", "method"];

/** A value that is read from the environment when the code runs. */
interface Variable {
  variable: string;
}
interface Entries {
  entries: [string, Shown][];
}
type Shown = null | boolean | number | string | Variable | Shown[] | Entries;

/** With the official SDK. `baseUrl`: the platform's, with `/v1`. */
export function sdkCode(order: JsonObject, baseUrl: string): string {
  const { entries } = withoutSecrets(order);
  const given = ARGUMENTS.flatMap((argument) => entries.filter(([name]) => name === argument));
  const others = entries.filter(([name]) => !ARGUMENTS.includes(name));
  const lines = given.map(([name, value]) => `    ${name}=${python(value, 1)},`);
  if (others.length) lines.push(`    extra_body=${python({ entries: others }, 1)},`);
  return `import os

from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(baseUrl)}, api_key=os.environ["RFT_API_KEY"])

job = client.fine_tuning.jobs.create(
${lines.join("\n")}
)
print(job.id)
`;
}

/** With the command line, its body on standard input. */
export function cliCode(order: JsonObject, baseUrl: string): string {
  const body = document(withoutSecrets(order));
  // Only a body without quotes around its end mark is searched for variables; what else it holds is kept from that.
  const mark = body.hasVariables ? "END" : "'END'";
  return `export RFT_BASE_URL=${baseUrl}\nrft jobs create - <<${mark}\n${body.text}\nEND\n`;
}

/** The environment variables that the code reads, beside the API key. */
export function variablesOf(order: JsonObject): string[] {
  const found: string[] = [];
  const walk = (value: Shown): void => {
    if (isVariable(value)) found.push(value.variable);
    else if (Array.isArray(value)) value.forEach(walk);
    else if (isEntries(value)) value.entries.forEach(([, part]) => walk(part));
  };
  walk(withoutSecrets(order));
  return [...new Set(found)];
}

/** With secrets replaced, each by a variable of its own: what would be called alike is numbered. */
function withoutSecrets(order: JsonObject): Entries {
  const used = new Map<string, number>();
  const toVariable = (path: readonly string[]): Variable => {
    const name = variable(path);
    const times = (used.get(name) ?? 0) + 1;
    used.set(name, times);
    return { variable: times === 1 ? name : `${name}_${times}` };
  };
  const fieldsOf = (value: JsonObject, path: readonly string[]): Entries => ({
    entries: Object.entries(value).map(([key, part]) => [
      key,
      path.at(-1) === "headers" ? toVariable([...path.slice(0, -1), key]) : shown(part, [...path, key]),
    ]),
  });
  /** `path` names what the value belongs to. */
  const shown = (value: Json, path: readonly string[]): Shown => {
    if (Array.isArray(value)) return value.map((part) => shown(part, [...path, nameOf(part)]));
    if (isObject(value)) return fieldsOf(value, path);
    const isSecret = typeof value === "string" && (path.at(-1) ?? "").endsWith("url") && hasSecret(value);
    return isSecret ? toVariable(path) : value;
  };
  return fieldsOf(order, []);
}

/** Somebody's name or key in an address, as the platform sees it: a login, or anything behind `?`. */
function hasSecret(url: string): boolean {
  return /^[a-z]+:\/\/[^/]*@/i.test(url) || url.includes("?");
}

/** `tools.search.Authorization` as `SEARCH_AUTHORIZATION`: the last two parts tell one from another. */
function variable(path: readonly string[]): string {
  const named = path.filter((part) => part && !["method", "reinforcement", "tools", "graders"].includes(part));
  return named
    .slice(-2)
    .join("_")
    .toUpperCase()
    .replaceAll(/[^A-Z0-9]+/g, "_")
    .replace(/^(\d)/, "_$1");
}

function nameOf(part: Json): string {
  return isObject(part) && typeof part.name === "string" ? part.name : "";
}

function isVariable(value: Shown): value is Variable {
  return typeof value === "object" && value !== null && "variable" in value;
}

function isEntries(value: Shown): value is Entries {
  return typeof value === "object" && value !== null && "entries" in value;
}

function python(value: Shown, depth: number): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (isVariable(value)) return `os.environ[${JSON.stringify(value.variable)}]`;
  if (Array.isArray(value))
    return block(
      "[",
      "]",
      value.map((part) => python(part, depth + 1)),
      depth,
    );
  if (isEntries(value)) {
    const parts = value.entries.map(([key, part]) => `${JSON.stringify(key)}: ${python(part, depth + 1)}`);
    return block("{", "}", parts, depth);
  }
  // JSON's numbers and texts are Python's as well.
  return JSON.stringify(value);
}

/** On one line where it is short. */
function block(open: string, close: string, parts: readonly string[], depth: number): string {
  const short = `${open}${parts.join(", ")}${close}`;
  if (short.length <= 70 && !short.includes("\n")) return short;
  const indent = "    ".repeat(depth);
  return `${open}\n${parts.map((part) => `${indent}    ${part},\n`).join("")}${indent}${close}`;
}

function document(value: Shown): { text: string; hasVariables: boolean } {
  const variables: string[] = [];
  const told = (part: Shown): unknown => {
    if (isVariable(part)) return `\u0000${variables.push(part.variable) - 1}\u0000`;
    if (Array.isArray(part)) return part.map(told);
    return isEntries(part) ? Object.fromEntries(part.entries.map(([key, inner]) => [key, told(inner)])) : part;
  };
  const text = JSON.stringify(told(value), null, 2);
  if (variables.length === 0) return { text, hasVariables: false };
  // Marks are told by their escaped NULs, which no order has; the shell reads backslashes, so they are doubled last.
  const pieces = text.split(/"\\u0000(\d+)\\u0000"/);
  const whole = pieces.map((piece, i) =>
    i % 2 ? `"$${variables[Number(piece)]}"` : piece.replaceAll(/[\\$`]/g, "\\$&"),
  );
  return { text: whole.join(""), hasVariables: true };
}
