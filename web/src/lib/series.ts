/** What a chart draws: columns of values over steps. */
import type { RolloutStats, MeasuredSplit, Step, StepRecord } from "../api/types";

export type Values = (number | null)[];

export interface Series {
  key: string;
  label: string;
  /** Name of a custom property. */
  color: string;
  values: Values;
  kind: "line" | "area" | "bar" | "held" | "dashed";
  /** Where the true values lie, most likely; drawn as a band around them. */
  interval?: Interval;
}

export interface Interval {
  low: Values;
  high: Values;
}

/** Something that happened at a step. */
export interface Marker {
  step: number;
  label: string;
  /** Name of a custom property. */
  color: string;
  /** Where it is drawn; absent: at its step. */
  place?: number;
}

/** What a chart lies over in place of steps. */
export interface ChartAxis {
  unit: string;
  /** The step at each place. */
  steps: readonly number[];
}

export interface Chart {
  /** With an `axis` the places on it. */
  steps: number[];
  axis?: ChartAxis;
  series: Series[];
  markers?: readonly Marker[];
  /** Areas and bars lie on each other; their values are still those of each alone. */
  isStacked: boolean;
}

/** The last value repeated until the next one, so that a curve measured now and then has a value everywhere. */
export function held(values: Values): Values {
  let last: number | null = null;
  return values.map((value) => (last = value ?? last));
}

/** Each area or bar on top of those before it; lines stay as they are. Where nothing was measured there is none. */
export function stacked(series: readonly Series[]): Values[] {
  const sum: number[] = [];
  return series.map((one) => {
    if (one.kind !== "area" && one.kind !== "bar") return one.values;
    return one.values.map((value, i) => (value === null ? null : (sum[i] = (sum[i] ?? 0) + value)));
  });
}

/** The last value there is. */
export function latest(values: Values): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

export interface Told {
  value: number | null;
  /** Of this value. */
  interval: [number, number] | null;
}

/** What a series is at an index; with null the latest there is. */
export function toldAt({ kind, values, interval }: Series, index: number | null): Told {
  const until = index ?? values.length - 1;
  const isExact = index !== null && kind !== "held";
  const at = isExact ? index : values.findLastIndex((value, i) => i <= until && value !== null);
  const [low, high] = [interval?.low[at] ?? null, interval?.high[at] ?? null];
  return { value: values[at] ?? null, interval: low === null || high === null ? null : [low, high] };
}

/** The step at an index of what is drawn; null where there is none. */
export function stepAt(steps: ArrayLike<number>, index: number | null | undefined): number | null {
  return index == null ? null : (steps[index] ?? null);
}

/** Where a step is drawn, or the nearest one before it; null where all are behind it. */
export function indexOf(steps: readonly number[], step: number): number | null {
  let [from, to] = [0, steps.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((steps[middle] ?? 0) <= step) from = middle + 1;
    else to = middle;
  }
  return from === 0 ? null : from - 1;
}

/** Axis range of rewards: [0, 1] when they lie within it, else around them. */
export function rewardRange(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null || (min >= 0 && max <= 1)) return [0, 1];
  const margin = Math.max((max - min) * 0.08, 1e-6);
  return [Math.min(0, min < 0 ? min - margin : 0), Math.max(1, max + margin)];
}

/** Axis range that shows all differences: a little more than the values take. */
export function fittedRange(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const margin = Math.max((max - min) * 0.08, 1e-3);
  return [min - margin, max + margin];
}

/** A series drawn as a line. */
export function line(key: string, label: string, color: string, values: Values): Series {
  return { key, label, color, values, kind: "line" };
}

/** Series over all steps, side by side. */
export function chart(steps: readonly Step[], series: Series[]): Chart {
  return { steps: steps.map((step) => step.step), series, isStacked: false };
}

/** One value per step; null where there is none. */
export function pick(
  steps: readonly Step[],
  value: (record: StepRecord, stats: RolloutStats | null) => number | null | undefined,
  split: MeasuredSplit = "train",
): Values {
  return steps.map((step) => value(step.record, step.record[split]) ?? null);
}

/** Whether anything was measured. */
export function hasValues(series: Series): boolean {
  return series.values.some((value) => value !== null);
}

/** Points of a series, with those of a part of it in more detail. What comes after its last one is not shown. */
export function refinedBy<T extends { step: number }>(whole: readonly T[], part: readonly T[] | undefined): T[] {
  if (part === undefined) return [...whole];
  const last = whole.at(-1)?.step ?? -1;
  const byStep = new Map([...part, ...whole].map((point) => [point.step, point]));
  return [...byStep.values()].filter((point) => point.step <= last).toSorted((a, b) => a.step - b.step);
}

/** Whether it leaves out steps between its first and its last one. */
export function isThinned(points: readonly { step: number }[]): boolean {
  return points.length > 0 && points.length <= (points.at(-1)?.step ?? 0) - (points[0]?.step ?? 0);
}
