/** The columns of the table of rollouts: which there are, which are shown, and how one sorts by them. */
import type { RolloutQuery, RolloutSort } from "../api/types";

export interface Column {
  id: string;
  label: string;
  /** Share of the width: characters that are usually in it. */
  width: number;
  isNumber?: boolean;
  sort?: RolloutSort;
  /** Not shown before somebody asks for it. */
  isSpare?: boolean;
}

export const COLUMNS: readonly Column[] = [
  { id: "id", label: "Rollout", width: 19 },
  { id: "step", label: "Step", width: 9, isNumber: true, sort: "newest" },
  { id: "split", label: "Split", width: 11 },
  { id: "row", label: "Row", width: 13, isNumber: true },
  { id: "reward", label: "Reward", width: 18, sort: "reward" },
  { id: "end", label: "Ended", width: 15 },
  { id: "prompt", label: "Prompt", width: 32 },
  { id: "answer", label: "Answer", width: 31 },
  { id: "calls", label: "Calls", width: 9, isNumber: true, sort: "tool_calls" },
  { id: "tokens", label: "Tokens", width: 11, isNumber: true, sort: "completion_tokens" },
  { id: "time", label: "Time", width: 13, isNumber: true, sort: "duration_s" },
  { id: "policy", label: "Policy", width: 8, isNumber: true, isSpare: true },
];
const KEY = "rft.rollout-columns";

/** Only what a browser remembers is needed of it. */
export type Memory = Pick<Storage, "getItem" | "setItem">;

/** The ids of the columns that are shown, in their order. */
export function shownColumns(memory: Memory): ReadonlySet<string> {
  const usual = COLUMNS.filter((column) => !column.isSpare).map((column) => column.id);
  const known = memory.getItem(KEY)?.split(",") ?? usual;
  return new Set(["id", ...COLUMNS.map((column) => column.id).filter((id) => known.includes(id))]);
}

export function rememberColumns(memory: Memory, shown: ReadonlySet<string>): void {
  memory.setItem(KEY, [...shown].join(","));
}

/** How a column's values go in a query's order; null where it is sorted by something else. */
export function directionOf(query: RolloutQuery, column: Column): "ascending" | "descending" | null {
  if (column.sort === undefined || column.sort !== (query.sort ?? "newest")) return null;
  return query.order === "asc" ? "ascending" : "descending";
}

/** The query after a click on a column's head: the largest first, then the smallest, then as before. */
export function resorted(query: RolloutQuery, column: Column): RolloutQuery {
  const { sort: _, order: __, ...rest } = query;
  const direction = directionOf(query, column);
  const sorted = column.sort === undefined || column.sort === "newest" ? rest : { ...rest, sort: column.sort };
  if (direction === null) return sorted;
  return direction === "descending" ? { ...sorted, order: "asc" } : rest;
}
