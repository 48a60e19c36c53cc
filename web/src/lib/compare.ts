/** Curves of several jobs on the same axes. */
import type { MeasuredSplit, Step } from "../api/types";
import { type Axis, type PlacedJob, places, unitOf } from "./axes";
import { fixed, percent, reward } from "./format";
import { MOST_COMPARED } from "./job_search";
import { toolColors } from "./palette";
import type { Chart, Series, Values } from "./series";
import { smoothed, smoothingWindow } from "./smooth";

/** The jobs that an address compares: each once, as many as there is room for. */
export function parseCompared(address: string): string[] {
  return [...new Set(new URLSearchParams(address).getAll("job").filter(Boolean))].slice(0, MOST_COMPARED);
}

interface Metric {
  value: string;
  label: string;
  of(step: Step): number | null | undefined;
  format(value: number): string;
  /** Whose interval is known too; rewards have a scale of their own. */
  split: MeasuredSplit | null;
}

export interface Drawing {
  isSmooth: boolean;
  hasIntervals: boolean;
}

const plain = (value: number) => fixed(value, 1);
const excludedShare = ({ record }: Step) => record.train && record.train.excluded / (record.train.rollouts || 1);

export const METRICS: readonly Metric[] = [
  metric("valid", "Validation reward", ({ record }) => record.valid?.reward_mean, reward, "valid"),
  metric("train", "Train reward", ({ record }) => record.train?.reward_mean, reward, "train"),
  metric("calls", "Tool calls per rollout", ({ record }) => record.train?.tool_calls_mean, plain),
  metric("tokens", "Completion tokens per rollout", ({ record }) => record.train?.completion_tokens_mean, plain),
  metric("excluded", "Excluded rollouts", excludedShare, percent),
  metric("seconds", "Seconds per step", ({ record }) => record.timing.full_step_s, plain),
];

function metric(
  value: string,
  label: string,
  of: Metric["of"],
  format: Metric["format"],
  split: Metric["split"] = null,
): Metric {
  return { value, label, of, format, split };
}

export interface ComparedJob extends PlacedJob {
  id: string;
  name: string;
}

export interface Comparison {
  /** Over positions on the axis in place of steps. */
  chart: Chart;
  /** Of a position. */
  unit: string;
}

/** One line for each job over the positions of all of them; a job has a value where one of its own steps lies. Smoothed
 * lines have no intervals: those are of what was measured. */
export function comparison(
  jobs: readonly ComparedJob[],
  metricName: string,
  axis: Axis,
  { isSmooth, hasIntervals }: Drawing = { isSmooth: false, hasIntervals: false },
): Comparison {
  const { of, split } = METRICS.find((one) => one.value === metricName) ?? METRICS[0]!;
  const placed = jobs.map((job) => places(job, axis));
  const [unit, size] = unitOf(axis, Math.max(0, ...placed.flat()));
  const all = [...new Set(placed.flat())].toSorted((a, b) => a - b);
  const colors = toolColors(jobs.map((job) => job.id));
  const series = jobs.map(({ id, name, curves }, i): Series => {
    const { data } = curves.curves;
    const spread = (own: Values): Values => {
      const values = new Map(own.map((value, at) => [placed[i]?.[at], value]));
      return all.map((place) => values.get(place) ?? null);
    };
    const own = data.map((step) => of(step) ?? null);
    const measured = own.filter((value) => value !== null).length;
    const values = spread(isSmooth ? smoothed(own, smoothingWindow(measured)) : own);
    const drawn: Series = { key: id, label: name, color: colors.get(id) ?? "--c-quiet", values, kind: "line" };
    const low = data.map(({ record }) => (split && record[split]?.reward_low) ?? null);
    if (isSmooth || !hasIntervals || low.every((value) => value === null)) return drawn;
    const high = data.map(({ record }) => (split && record[split]?.reward_high) ?? null);
    return { ...drawn, interval: { low: spread(low), high: spread(high) } };
  });
  return { chart: { steps: all.map((place) => place / size), series, isStacked: false }, unit };
}

/** A job's value at the cursor, or its last one before it; with null the last of all. */
export function valueAt(series: Series, positions: readonly number[], cursor: number | null): number | null {
  const until = cursor === null ? positions.length : positions.findLastIndex((one) => one <= cursor) + 1;
  return series.values.slice(0, until).findLast((value) => value !== null) ?? null;
}
