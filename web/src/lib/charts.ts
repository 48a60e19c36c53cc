/** From the job's steps to what each chart draws. */
import type { Baseline, RolloutStats, MeasuredSplit, Step, StepRecord } from "../api/types";
import { areEqual } from "./equal_rewards";
import { codeColor, PARTS, QUIET, toolColors, TOTAL, TRAIN, VALID } from "./palette";
import { type Chart, chart, hasValues, line, type Marker, pick, type Series, type Values } from "./series";
import { smoothed, smoothingWindow } from "./smooth";

const NO_MARKERS: readonly Marker[] = [];

/** Train and validation reward, what they would be with failures as 0, the baseline and other models where they were
 * measured. */
export function rewardChart(
  steps: readonly Step[],
  others: readonly Baseline[] = [],
  { isSmooth = false, markers = NO_MARKERS }: { isSmooth?: boolean; markers?: readonly Marker[] } = {},
): Chart {
  const baseline = steps.find((step) => step.step === 0)?.record.valid?.reward_mean ?? null;
  const train = pick(steps, (record) => record.train?.reward_mean);
  const series: Series[] = [
    ...(isSmooth
      ? [
          line("train", "Train", QUIET, train),
          line("smooth", "Train, smoothed", TRAIN, smoothed(train, smoothingWindow(steps.length))),
        ]
      : [line("train", "Train", TRAIN, train)]),
    {
      ...line(
        "valid",
        "Validation",
        VALID,
        pick(steps, (record) => record.valid?.reward_mean),
      ),
      kind: "held",
      ...validInterval(steps),
    },
  ];
  series.push(...withFailuresAsZero(steps, "train"), ...withFailuresAsZero(steps, "valid"));
  if (baseline !== null && steps.length > 1) {
    const values: Values = steps.map(() => baseline);
    series.push({ key: "baseline", label: "Baseline", color: QUIET, values, kind: "dashed" });
  }
  return { ...chart(steps, [...series, ...otherModels(steps, others)].filter(hasValues)), markers };
}

/** What other models earn on the validation rows, as level lines; nothing of those that were not measured. */
function otherModels(steps: readonly Step[], others: readonly Baseline[]): Series[] {
  const colors = toolColors(others.map((one) => one.model));
  return others.map((one): Series => {
    const values: Values = steps.map(() => one.reward?.mean ?? null);
    return { ...line(`model ${one.model}`, one.model, colors.get(one.model) ?? TOTAL, values), kind: "dashed" };
  });
}

/** Where the true validation rewards lie; nothing for jobs of releases that did not measure it. */
function validInterval(steps: readonly Step[]): Pick<Series, "interval"> {
  const low = pick(steps, (record) => record.valid?.reward_low);
  const high = pick(steps, (record) => record.valid?.reward_high);
  return low.some((value) => value !== null) ? { interval: { low, high } } : {};
}

/** What the reward of a split would be if failures counted as 0; nothing where that is the same. */
function withFailuresAsZero(steps: readonly Step[], split: MeasuredSplit): Series[] {
  const values = pick(steps, (_, stats) => stats?.reward_mean_if_failures_were_zero, split);
  const means = pick(steps, (_, stats) => stats?.reward_mean, split);
  // But for rounding: where none failed, all rows have equally many grades.
  const differs = values.some((value, i) => {
    const mean = means[i] ?? null;
    return value !== null && (mean === null || !areEqual([value, mean]));
  });
  if (!differs) return [];
  const [label, color] = split === "train" ? ["Train, failures as 0", TRAIN] : ["Validation, failures as 0", VALID];
  return [{ ...line(`${split}-zero`, label, color, values), kind: "dashed" }];
}

/** Every grader's own score; null where there is only one grader, whose score is the reward. */
export function graderChart(steps: readonly Step[], split: MeasuredSplit): Chart | null {
  const all = steps.flatMap((step) => [step.record.train, step.record.valid]);
  const names = [...new Set(all.flatMap((stats) => Object.keys(stats?.grader_scores_mean ?? {})))].toSorted();
  if (names.length < 2) return null;
  const colors = toolColors(names);
  const lines = names.map((name): Series => {
    const values = pick(steps, (_, stats) => scoreOf(stats, name), split);
    const kind = split === "valid" ? "held" : "line";
    return { ...line(name, name, colors.get(name) ?? TOTAL, values), kind };
  });
  return chart(steps, lines.filter(hasValues));
}

function scoreOf(stats: RolloutStats | null, name: string): number | null {
  const scores = stats?.grader_scores_mean ?? {};
  return Object.hasOwn(scores, name) ? (scores[name] ?? null) : null;
}

/** Calls per rollout by tool, stacked, in the job's own order of tools. */
export function toolChart(steps: readonly Step[], split: MeasuredSplit, order: readonly string[]): Chart {
  const colors = toolColors(order);
  const areas = order.map((name): Series => {
    const values = pick(steps, (_, stats) => callsTo(stats, name), split);
    return { key: `tool ${name}`, label: name, color: colors.get(name) ?? TOTAL, values, kind: "area" };
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
export function excludedChart(steps: readonly Step[], split: MeasuredSplit): Chart {
  const codes = [
    ...new Set(steps.flatMap((step) => Object.keys(step.record[split]?.failures_by_code ?? {}))),
  ].toSorted();
  const bars = codes.map((code): Series => {
    const values = pick(steps, (_, stats) => stats && (stats.failures_by_code[code] ?? 0) / stats.rollouts, split);
    return { key: code, label: code.replaceAll("_", " "), color: codeColor(code), values, kind: "bar" };
  });
  return { ...chart(steps, bars), isStacked: true };
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

/** Over graded rollouts: nothing where none was. */
function callsTo(stats: RolloutStats | null, name: string): number | null {
  if (stats === null || stats.tool_calls_mean === null) return null;
  return stats.tools.find((tool) => tool.name === name)?.calls_per_rollout_mean ?? 0;
}
