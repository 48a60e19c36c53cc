/** An eval's latest run, as the list of evals tells of it. */
import type { LatestRun } from "../api/types";
import { isGoing, share } from "./evals";
import { fixed, percent } from "./format";

export interface LatestRunView {
  /** Share that passed, or how far it is; a dash before anything is known. */
  value: string;
  /** Intervals at 95 %, or what the value is of. */
  notes: readonly string[];
}

/** What it came to, or how far it is. */
export function latestRunView(run: LatestRun): LatestRunView {
  if (isGoing(run)) {
    const isCounted = run.samples !== null && run.samples > 0;
    return isCounted
      ? { value: percent(run.finished / (run.samples ?? 1)), notes: ["done"] }
      : { value: "–", notes: [] };
  }
  const passed = share(run.passed);
  const { score } = run;
  const scored = score && `score ${fixed(score.mean, 2)} [${fixed(score.low, 2)}, ${fixed(score.high, 2)}]`;
  return { value: passed.value, notes: [passed.interval, scored].filter((note) => note !== null) };
}
