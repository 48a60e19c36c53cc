/** What lies along the bottom of a chart: steps, what they had cost, or time. */
import type { JobCurvesObject } from "../api/types";
import { compact, count } from "./format";
import { type Chart, indexOf } from "./series";

export type Axis = "step" | "rollouts" | "time";
export const AXES: readonly { value: Axis; label: string }[] = [
  { value: "step", label: "Step" },
  { value: "rollouts", label: "Rollouts spent" },
  { value: "time", label: "Time" },
];

export interface PlacedJob {
  /** Unix seconds; null before it started. */
  startedAt: number | null;
  curves: JobCurvesObject;
}

/** Where each of its steps lies; always to the right of the one before it. */
export function places({ startedAt, curves }: PlacedJob, axis: Axis): number[] {
  const { data } = curves.curves;
  if (axis === "step") return data.map((step) => step.step);
  if (axis === "rollouts") return apart(data.map((_, at) => curves.rollouts_spent?.[at] ?? 0));
  const start = startedAt ?? data[0]?.created_at ?? 0;
  return apart(data.map((step) => Math.max(0, step.created_at - start)));
}

/** What is counted along an axis that reaches so far, and what one of it is of what `places` tells. */
export function unitOf(axis: Axis, furthest: number): [string, number] {
  if (axis !== "time") return [axis, 1];
  if (furthest < 600) return ["seconds", 1];
  return furthest < 36_000 ? ["minutes", 60] : ["hours", 3600];
}

/** A job's chart over another axis than its steps. */
export function overAxis(chart: Chart, job: PlacedJob, axis: Axis): Chart {
  if (axis === "step") return chart;
  const found = places(job, axis);
  const [unit, size] = unitOf(axis, found.at(-1) ?? 0);
  const steps = found.map((place) => place / size);
  const placeOf = (step: number) => steps[indexOf(chart.steps, step) ?? 0] ?? 0;
  const markers = chart.markers?.map((marker) => ({ ...marker, place: placeOf(marker.step) })) ?? [];
  return { ...chart, steps, markers, axis: { unit, steps: chart.steps } };
}

/** Steps that ended in one second are told apart by a thousandth: each has values of its own, and arrow keys go from
 * place to place. */
function apart(found: readonly number[]): number[] {
  let last = -Infinity;
  return found.map((place) => (last = Math.max(place, last + 0.001)));
}

/** `step 3`, `140 rollouts`, `2.5 minutes`. */
export function placeText(unit: string, place: number): string {
  if (unit === "step") return `step ${place}`;
  return `${unit === "rollouts" ? count(place) : compact(place)} ${unit}`;
}

/** What the numbers along the axis are. */
export function axisNote(unit: string): string {
  return unit === "rollouts" ? "rollouts, of training and validation" : `${unit} since the start`;
}

/** The axis that an address names. */
export function parseAxis(search: string): Axis {
  const named = new URLSearchParams(search).get("axis");
  return AXES.find((one) => one.value === named)?.value ?? "step";
}

/** An address's parameters with this axis, the others as they are; with a `?` where there are any. */
export function withAxis(search: string, axis: Axis): string {
  const parameters = new URLSearchParams(search);
  if (axis === "step") parameters.delete("axis");
  else parameters.set("axis", axis);
  const text = parameters.toString();
  return text && `?${text}`;
}
