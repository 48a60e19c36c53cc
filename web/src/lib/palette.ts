/** Which colour means what. Colours are names of custom properties in `theme.css`, one set per colour scheme. */

export const TRAIN = "--c-train";
export const VALID = "--c-valid";
export const QUIET = "--c-quiet";
export const TOTAL = "--c-total";

export const PARTS = {
  sampling: "--c-part-sampling",
  tools: "--c-part-tools",
  grading: "--c-part-grading",
  training: "--c-part-training",
  eval: "--c-part-eval",
} as const;

/** Calls that an endpoint answered with a 4xx: the model reads it, so it is no failure. */
export const REFUSED = "--c-refused";

const TOOL_COLORS = 8;
/** What goes wrong most often has a colour of its own; all else shares one. */
const CODES: readonly string[] = [
  "server_error",
  "timeout",
  "rate_limited",
  "connect_error",
  "invalid_reply",
  "connection_reset",
  "rejected",
];

/** The colour of each tool: by its place in the job's own order, so it is the same in every chart and trace. */
export function toolColors(names: readonly string[]): ReadonlyMap<string, string> {
  return new Map(names.map((name, i) => [name, `--c-tool-${(i % TOOL_COLORS) + 1}`]));
}

/** The colour of a failure code, the same in every chart of every job. */
export function codeColor(code: string): string {
  const index = CODES.indexOf(code);
  return `--c-code-${(index < 0 ? CODES.length : index) + 1}`;
}

/** The job's tools in its own order, then those that only the steps know, alphabetically. */
export function toolOrder(declared: readonly string[], seen: Iterable<string>): string[] {
  const extra = [...new Set(seen)].filter((name) => !declared.includes(name)).toSorted();
  return [...declared, ...extra];
}
