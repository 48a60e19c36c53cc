/** Curves of several jobs on the same axes. */
import type { JobCurvesObject, Step } from "../api/types";
import { fixed, percent, reward } from "./format";
import { MOST_COMPARED } from "./job_search";
import { toolColors } from "./palette";
import type { Chart, Series } from "./series";

/** The jobs that an address compares: each once, as many as there is room for. */
export function parseCompared(address: string): string[] {
  return [...new Set(new URLSearchParams(address).getAll("job").filter(Boolean))].slice(0, MOST_COMPARED);
}

export type Axis = "step" | "rollouts" | "time";
export const AXES: readonly { value: Axis; label: string }[] = [
  { value: "step", label: "Step" },
  { value: "rollouts", label: "Rollouts spent" },
  { value: "time", label: "Time" },
];

interface Metric {
  value: string;
  label: string;
  of(step: Step): number | null | undefined;
  format(value: number): string;
  /** Rewards have a scale of their own. */
  isReward: boolean;
}

const plain = (value: number) => fixed(value, 1);
const excludedShare = ({ record }: Step) => record.train && record.train.excluded / (record.train.rollouts || 1);

export const METRICS: readonly Metric[] = [
  metric("valid", "Validation reward", ({ record }) => record.valid?.reward_mean, reward, true),
  metric("train", "Train reward", ({ record }) => record.train?.reward_mean, reward, true),
  metric("calls", "Tool calls per rollout", ({ record }) => record.train?.tool_calls_mean, plain),
  metric("tokens", "Completion tokens per rollout", ({ record }) => record.train?.completion_tokens_mean, plain),
  metric("excluded", "Excluded rollouts", excludedShare, percent),
  metric("seconds", "Seconds per step", ({ record }) => record.timing.full_step_s, plain),
];

function metric(value: string, label: string, of: Metric["of"], format: Metric["format"], isReward = false): Metric {
  return { value, label, of, format, isReward };
}

export interface ComparedJob {
  id: string;
  name: string;
  /** Unix seconds; null before it started. */
  startedAt: number | null;
  curves: JobCurvesObject;
}

export interface Comparison {
  /** Over positions on the axis in place of steps. */
  chart: Chart;
  /** Of a position. */
  unit: string;
}

/** One line for each job over the positions of all of them; a job has a value where one of its own steps lies. */
export function comparison(jobs: readonly ComparedJob[], metricName: string, axis: Axis): Comparison {
  const { of } = METRICS.find((one) => one.value === metricName) ?? METRICS[0]!;
  const placed = jobs.map((job) => places(job, axis));
  const [unit, size] = axis === "time" ? timeUnit(Math.max(0, ...placed.flat())) : [axis, 1];
  const all = [...new Set(placed.flat())].toSorted((a, b) => a - b);
  const colors = toolColors(jobs.map((job) => job.id));
  const series = jobs.map(({ id, name, curves }, i): Series => {
    const values = new Map(curves.curves.data.map((step, at) => [placed[i]?.[at], of(step) ?? null]));
    const color = colors.get(id) ?? "--c-quiet";
    return { key: id, label: name, color, values: all.map((place) => values.get(place) ?? null), kind: "line" };
  });
  return { chart: { steps: all.map((place) => place / size), series, isStacked: false }, unit };
}

/** Where each of its steps lies; never to the left of the one before it. */
function places({ startedAt, curves }: ComparedJob, axis: Axis): number[] {
  const { data } = curves.curves;
  if (axis === "step") return data.map((step) => step.step);
  if (axis === "rollouts") return data.map((_, at) => curves.rollouts_spent?.[at] ?? 0);
  const start = startedAt ?? data[0]?.created_at ?? 0;
  let latest = 0;
  return data.map((step) => (latest = Math.max(latest, step.created_at - start)));
}

/** The unit in which the longest time is read with ease, and its seconds. */
function timeUnit(longest: number): [string, number] {
  if (longest < 600) return ["seconds", 1];
  return longest < 36_000 ? ["minutes", 60] : ["hours", 3600];
}

/** A job's value at the cursor, or its last one before it; with null the last of all. */
export function valueAt(series: Series, positions: readonly number[], cursor: number | null): number | null {
  const until = cursor === null ? positions.length : positions.findLastIndex((one) => one <= cursor) + 1;
  return series.values.slice(0, until).findLast((value) => value !== null) ?? null;
}
