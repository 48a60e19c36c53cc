/** Curves of several jobs on the same axes. */
import type { Step } from "../api/types";
import { type Axis, type PlacedJob, places, unitOf } from "./axes";
import { fixed, percent, reward } from "./format";
import { MOST_COMPARED } from "./job_search";
import { toolColors } from "./palette";
import type { Chart, Series } from "./series";

/** The jobs that an address compares: each once, as many as there is room for. */
export function parseCompared(address: string): string[] {
  return [...new Set(new URLSearchParams(address).getAll("job").filter(Boolean))].slice(0, MOST_COMPARED);
}

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

/** One line for each job over the positions of all of them; a job has a value where one of its own steps lies. */
export function comparison(jobs: readonly ComparedJob[], metricName: string, axis: Axis): Comparison {
  const { of } = METRICS.find((one) => one.value === metricName) ?? METRICS[0]!;
  const placed = jobs.map((job) => places(job, axis));
  const [unit, size] = unitOf(axis, Math.max(0, ...placed.flat()));
  const all = [...new Set(placed.flat())].toSorted((a, b) => a - b);
  const colors = toolColors(jobs.map((job) => job.id));
  const series = jobs.map(({ id, name, curves }, i): Series => {
    const values = new Map(curves.curves.data.map((step, at) => [placed[i]?.[at], of(step) ?? null]));
    const color = colors.get(id) ?? "--c-quiet";
    return { key: id, label: name, color, values: all.map((place) => values.get(place) ?? null), kind: "line" };
  });
  return { chart: { steps: all.map((place) => place / size), series, isStacked: false }, unit };
}

/** A job's value at the cursor, or its last one before it; with null the last of all. */
export function valueAt(series: Series, positions: readonly number[], cursor: number | null): number | null {
  const until = cursor === null ? positions.length : positions.findLastIndex((one) => one <= cursor) + 1;
  return series.values.slice(0, until).findLast((value) => value !== null) ?? null;
}
