/** What changed from one policy to another: row by row, as a picture and in a table. */
import type { PolicyChange, RowChange, Step } from "../api/types";
import { csvTable } from "./chart_file";
import { areEqual } from "./equal_rewards";
import { delta, plural } from "./format";

/** What is held against the change in reward. */
export type Against = "tool_calls" | "completion_tokens" | "duration_s";

export const AGAINST: readonly { value: Against; label: string }[] = [
  { value: "tool_calls", label: "Calls" },
  { value: "completion_tokens", label: "Tokens" },
  { value: "duration_s", label: "Time" },
];

export interface Quadrants {
  /** Rows by what became of their reward and of the other figure. */
  betterLess: number;
  betterMore: number;
  worseLess: number;
  worseMore: number;
  /** The same reward, whatever the other figure. */
  same: number;
}

export interface Dot {
  row: RowChange;
  /** Within -1..1, right is more. */
  x: number;
  /** Within -1..1, up is better. */
  y: number;
}

/** 0 where rounding is all that they differ by. */
export function rewardChange({ before, after }: RowChange): number {
  return areEqual([before.reward, after.reward]) ? 0 : after.reward - before.reward;
}
/** Of calls, tokens and seconds. */
const ROUNDING = 1e-9;

export const change = (row: RowChange, against: Against) => row.after[against] - row.before[against];

/** Counts of rows; one that costs exactly as much as before counts as no more. */
export function quadrants(rows: readonly RowChange[], against: Against): Quadrants {
  const counts = { betterLess: 0, betterMore: 0, worseLess: 0, worseMore: 0, same: 0 };
  for (const row of rows) {
    const gain = rewardChange(row);
    const isMore = change(row, against) > ROUNDING;
    if (gain === 0) counts.same += 1;
    else if (gain > 0) counts[isMore ? "betterMore" : "betterLess"] += 1;
    else counts[isMore ? "worseMore" : "worseLess"] += 1;
  }
  return counts;
}

/** Where each row is drawn, and what the edges of the picture stand for. */
export function dots(rows: readonly RowChange[], against: Against): { dots: Dot[]; x: number; y: number } {
  const x = Math.max(ROUNDING, ...rows.map((row) => Math.abs(change(row, against))));
  const y = Math.max(ROUNDING, ...rows.map((row) => Math.abs(rewardChange(row))));
  return { dots: rows.map((row) => ({ row, x: change(row, against) / x, y: rewardChange(row) / y })), x, y };
}

/** Rows by how much their reward changed; those that got worse first, as they are what to look at. */
export function byChange(rows: readonly RowChange[]): RowChange[] {
  return rows
    .filter((row) => rewardChange(row) !== 0)
    .toSorted((a, b) => rewardChange(a) - rewardChange(b) || a.row_index - b.row_index);
}

/** Steps whose policy was measured on the validation rows. */
export function measuredSteps(steps: readonly Step[]): number[] {
  return steps.filter((step) => step.record.valid !== null).map((step) => step.step);
}

/** The change in reward row by row, in words. */
export function rewardWords({ reward, data }: PolicyChange): string {
  if (data.length === 0) return "no row was graded under both policies";
  if (reward === null) return `${plural(data.length, "row")}: nothing tells how their differences spread`;
  const [mean, low, high] = [reward.difference, reward.low, reward.high].map((value) => delta(value));
  return `row by row ${mean} [${low}, ${high}]: ${reward.better} better, ${reward.worse} worse, ${reward.same} the same`;
}

/** What is not compared, in a sentence; null where nothing is left out. */
export function leftOut(told: PolicyChange): string | null {
  const sides = [
    { step: told.before, ...told.left_out_before },
    { step: told.after, ...told.left_out_after },
  ];
  const parts = sides.flatMap(({ step, rows, excluded_rollouts: excluded }) => [
    ...(rows > 0 ? [`${plural(rows, "row")} graded at step ${step} alone`] : []),
    ...(excluded ? [`${plural(excluded, "excluded rollout")} of step ${step}`] : []),
  ]);
  return parts.length === 0 ? null : `Left out: ${parts.join(", ")}.`;
}

/** Both policies row by row, as other programs read them. */
export function changeTable(rows: readonly RowChange[]): string {
  const figures = ["reward", "tool_calls", "completion_tokens", "duration_s"] as const;
  const head = ["row", ...figures.flatMap((figure) => [`${figure} before`, `${figure} after`])];
  return csvTable(
    head,
    rows.map((row) => [row.row_index, ...figures.flatMap((figure) => [row.before[figure], row.after[figure]])]),
  );
}
