/** From the job's steps to what each chart draws. */
import type { RolloutStats, Split, Step, StepRecord } from "../api/types";
import { codeColors, PARTS, QUIET, toolColors, TOTAL, TRAIN, VALID } from "./palette";

export type Values = (number | null)[];

export interface Series {
  key: string;
  label: string;
  /** Name of a custom property. */
  color: string;
  values: Values;
  kind: "line" | "area" | "held" | "dashed";
}

export interface Chart {
  steps: number[];
  series: Series[];
  /** Areas lie on each other; their values are still those of each alone. */
  isStacked: boolean;
}

/** Train and validation reward, and the baseline as a line where it was measured. */
export function rewardChart(steps: readonly Step[]): Chart {
  const baseline = steps.find((step) => step.step === 0)?.record.valid?.reward_mean ?? null;
  const series: Series[] = [
    line(
      "train",
      "Train",
      TRAIN,
      pick(steps, (record) => record.train?.reward_mean),
    ),
    {
      ...line(
        "valid",
        "Validation",
        VALID,
        pick(steps, (record) => record.valid?.reward_mean),
      ),
      kind: "held",
    },
  ];
  if (baseline !== null && steps.length > 1) {
    const values: Values = steps.map(() => baseline);
    series.push({ key: "baseline", label: "Baseline", color: QUIET, values, kind: "dashed" });
  }
  return chart(steps, series.filter(hasValues));
}

/** Calls per rollout by tool, stacked, in the job's own order of tools. */
export function toolChart(steps: readonly Step[], split: Split, order: readonly string[]): Chart {
  const colors = toolColors(order);
  const areas = order.map((name): Series => {
    const values = pick(steps, (_, stats) => callsTo(stats, name), split);
    return { key: name, label: name, color: colors.get(name) ?? TOTAL, values, kind: "area" };
  });
  const total = line(
    "total",
    "All tools",
    TOTAL,
    pick(steps, (_, stats) => stats?.tool_calls_mean, split),
  );
  return { ...chart(steps, [...areas.filter(hasValues), total].filter(hasValues)), isStacked: true };
}

/** Tokens the policy sampled per rollout. */
export function tokensChart(steps: readonly Step[]): Chart {
  const series: Series[] = [
    line(
      "train",
      "Train",
      TRAIN,
      pick(steps, (record) => record.train?.completion_tokens_mean),
    ),
    {
      ...line(
        "valid",
        "Validation",
        VALID,
        pick(steps, (record) => record.valid?.completion_tokens_mean),
      ),
      kind: "held",
    },
  ];
  return chart(steps, series.filter(hasValues));
}

/** Share of rollouts without a grade, stacked by failure code. */
export function excludedChart(steps: readonly Step[], split: Split): Chart {
  const codes = [
    ...new Set(steps.flatMap((step) => Object.keys(step.record[split]?.failures_by_code ?? {}))),
  ].toSorted();
  const colors = codeColors(codes);
  const areas = codes.map((code): Series => {
    const values = pick(steps, (_, stats) => stats && (stats.failures_by_code[code] ?? 0) / stats.rollouts, split);
    return { key: code, label: code.replaceAll("_", " "), color: colors.get(code) ?? QUIET, values, kind: "area" };
  });
  return { ...chart(steps, areas), isStacked: true };
}

/** Seconds of each part of a step, stacked. */
export function timeChart(steps: readonly Step[]): Chart {
  const part = (key: keyof typeof PARTS, label: string, field: keyof StepRecord["timing"]): Series => ({
    key,
    label,
    color: PARTS[key],
    values: pick(steps, (record) => record.timing[field]),
    kind: "area",
  });
  const series = [
    part("training", "Training", "training_s"),
    part("sampling", "Sampling", "sampling_s"),
    part("tools", "Tools", "tools_s"),
    part("grading", "Grading", "grading_s"),
    part("eval", "Evaluation", "eval_s"),
  ];
  return {
    ...chart(
      steps,
      series.filter((one) => one.values.some((value) => value !== null && value > 0)),
    ),
    isStacked: true,
  };
}

/** Every tool name the steps know. */
export function toolsSeen(steps: readonly Step[]): Set<string> {
  const stats = steps.flatMap((step) => [step.record.train, step.record.valid]);
  return new Set(stats.flatMap((one) => one?.tools.map((tool) => tool.name) ?? []));
}

/** The last value repeated until the next one, so that a curve measured now and then has a value everywhere. */
export function held(values: Values): Values {
  let last: number | null = null;
  return values.map((value) => (last = value ?? last));
}

/** Each area on top of those before it; lines stay as they are. Where nothing was measured there is no area. */
export function stacked(series: readonly Series[]): Values[] {
  const sum: number[] = [];
  return series.map((one) => {
    if (one.kind !== "area") return one.values;
    return one.values.map((value, i) => (value === null ? null : (sum[i] = (sum[i] ?? 0) + value)));
  });
}

/** The last value there is. */
export function latest(values: Values): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

/** Axis range of rewards: [0, 1] when they lie within it, else around them. */
export function rewardRange(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null || (min >= 0 && max <= 1)) return [0, 1];
  const margin = Math.max((max - min) * 0.08, 1e-6);
  return [Math.min(0, min < 0 ? min - margin : 0), Math.max(1, max + margin)];
}

function line(key: string, label: string, color: string, values: Values): Series {
  return { key, label, color, values, kind: "line" };
}

function chart(steps: readonly Step[], series: Series[]): Chart {
  return { steps: steps.map((step) => step.step), series, isStacked: false };
}

function pick(
  steps: readonly Step[],
  value: (record: StepRecord, stats: RolloutStats | null) => number | null | undefined,
  split: Split = "train",
): Values {
  return steps.map((step) => value(step.record, step.record[split]) ?? null);
}

function callsTo(stats: RolloutStats | null, name: string): number | null {
  return stats && (stats.tools.find((tool) => tool.name === name)?.calls_per_rollout_mean ?? 0);
}

function hasValues(series: Series): boolean {
  return series.values.some((value) => value !== null);
}
