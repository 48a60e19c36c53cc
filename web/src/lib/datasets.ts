/** Files in a line: what is in one, whether jobs can use it, who does. */
import type { FileUse, StoredFile } from "../api/types";
import { parseExact } from "../api/exact_json";
import { count, plural } from "./format";
import { prettyJson } from "./json_text";

/** Whether a job can use it, where that is known. */
export function fileMark(file: StoredFile): { label: string; tone: string } {
  if (file.dataset === null) {
    return file.status === "error" ? { label: "unusable", tone: "bad" } : { label: "uploaded", tone: "" };
  }
  if (file.dataset.problems > 0) return { label: plural(file.dataset.problems, "bad line"), tone: "bad" };
  return { label: "good", tone: "good" };
}

/** `1 200 rows, 3 tools, 4 duplicates`; null of a file that is no dataset. */
export function contentOf({ dataset }: StoredFile): string | null {
  if (dataset === null) return null;
  const parts = [plural(dataset.rows, "row")];
  if (dataset.tools.length > 0) parts.push(plural(dataset.tools.length, "tool"));
  if (dataset.duplicates > 0) parts.push(plural(dataset.duplicates, "duplicate"));
  return parts.join(", ");
}

const KINDS: Record<FileUse["kind"], string> = { job: "Job", rehearsal: "Rehearsal", eval_run: "Run of an eval" };

export function kindOf(use: FileUse): string {
  return KINDS[use.kind];
}

/** Where it is shown; null where it has no page. */
export function pathOf(use: FileUse): string | null {
  if (use.kind === "job") return `/jobs/${use.id}`;
  return use.kind === "eval_run" && use.eval_id ? `/evals/${use.eval_id}/runs/${use.id}` : null;
}

export interface PreviewRow {
  /** From 1; empty lines are not counted. */
  line: number;
  /** The question, or what else the line holds. */
  text: string;
  /** The whole line, indented; as it stands where it is no JSON. */
  whole: string;
}

/** The first lines of a file, each in a line of its own. */
export function previewOf(lines: readonly string[]): PreviewRow[] {
  return lines.map((line, i) => {
    const row = parsed(line);
    return {
      line: i + 1,
      text: row === undefined ? line : inALine(row),
      whole: prettyJson(line),
    };
  });
}

function parsed(line: string): unknown {
  try {
    return parseExact(line);
  } catch {
    return undefined;
  }
}

function inALine(row: unknown): string {
  const { messages, item } = (row ?? {}) as { messages?: unknown; item?: unknown };
  const last = Array.isArray(messages) ? (messages.at(-1) as { content?: unknown } | undefined)?.content : undefined;
  if (typeof last === "string") return last;
  return JSON.stringify(item ?? row);
}

/** How far the file was read, where that was not to its end. */
export function readNote({ dataset }: StoredFile): string | null {
  if (dataset?.stopped_at_line == null) return null;
  return `Too much is wrong: from line ${count(dataset.stopped_at_line)} on it was not read.`;
}
