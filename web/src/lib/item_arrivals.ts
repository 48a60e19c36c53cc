/** Output items of a run that came in since their list was loaded. */
import type { EvalRun, ItemStatus } from "../api/types";

export type Filter = ItemStatus | "all";

/** How many there are beyond those of a list that was loaded to its end. Never fewer than none: verdicts are withdrawn. */
export function newItems(counts: EvalRun["result_counts"], filter: Filter, shown: number): number {
  const { total, passed, failed, errored } = counts;
  return Math.max(0, { all: total, pass: passed, fail: failed, error: errored }[filter] - shown);
}
