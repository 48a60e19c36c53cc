/** From a job's diagnostics to charts of how training goes. */
import type { DiagnosticPoint } from "../api/types";
import { PARTS, QUIET, toolColors, toolOrder, TOTAL, TRAIN, VALID } from "./palette";
import { type Chart, hasValues, line, type Series, type Values } from "./series";

type Read = (point: DiagnosticPoint) => number | null | undefined;

export interface DiagnosticChart {
  key: string;
  title: string;
  unit: string;
  chart: Chart;
  /** How its values are written. */
  kind: "share" | "seconds" | "number" | "small";
  /** Why there is nothing to draw. */
  empty: string;
}

/** Every chart, whether or not it has something to show, in the order of the page. `tools`: the job's own order. */
export function diagnosticCharts(points: readonly DiagnosticPoint[], tools: readonly string[]): DiagnosticChart[] {
  return [
    signalChart(points),
    stopChart(points),
    toolLatencyChart(points, tools),
    graderLatencyChart(points),
    rolloutTimeChart(points),
    one(points, "speed", "Sampled tokens", "per second of a round", "number", "Tokens", (p) => p.sampled_tokens_per_s),
    one(points, "entropy", "Entropy", "nats per token", "small", "Entropy", (p) => p.optimization?.entropy),
    one(points, "gradient", "Gradient norm", "before clipping", "small", "Norm", (p) => p.optimization?.grad_norm),
    gapChart(points),
    shareChart(points),
    one(points, "staleness", "Staleness", "steps", "small", "Mean", (p) => p.optimization?.staleness_mean),
    one(points, "kl", "KL from the base model", "nats per token", "small", "KL", (p) => p.optimization?.kl),
    one(points, "trained", "Trained tokens", "per update", "number", "Tokens", (p) => p.optimization?.trained_tokens),
    one(points, "rate", "Learning rate", "of the update", "small", "Rate", (p) => p.optimization?.learning_rate),
  ];
}

const withoutSignal: Read = (point) => (point.groups ? (point.zero_variance_groups ?? 0) / point.groups : null);

function signalChart(points: readonly DiagnosticPoint[]): DiagnosticChart {
  return made(points, "signal", "Groups without signal", "share of groups", "share", [
    line("signal", "All rewards equal", TRAIN, read(points, withoutSignal)),
  ]);
}

/** Shares of the training rollouts by what ended them, stacked; the commonest over all steps first. */
function stopChart(points: readonly DiagnosticPoint[]): DiagnosticChart {
  const sums = new Map<string, number>();
  for (const point of points)
    for (const [reason, count] of Object.entries(point.stop_reasons ?? {}))
      sums.set(reason, (sums.get(reason) ?? 0) + count);
  const reasons = [...sums].toSorted((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([reason]) => reason);
  const colors = toolColors(reasons);
  const areas = reasons.map((reason): Series => {
    const values = read(points, (point) => shareOf(point.stop_reasons, reason));
    return {
      key: reason,
      label: reason.replaceAll("_", " "),
      color: colors.get(reason) ?? TOTAL,
      values,
      kind: "area",
    };
  });
  const drawn = made(points, "stops", "What ended rollouts", "share of rollouts", "share", areas);
  return { ...drawn, chart: { ...drawn.chart, isStacked: true } };
}

function shareOf(counts: Readonly<Record<string, number>> | null | undefined, name: string): number | null {
  const all = Object.values(counts ?? {}).reduce((sum, count) => sum + count, 0);
  return all === 0 ? null : (counts?.[name] ?? 0) / all;
}

/** Half and 95 % of each tool's calls took no longer; of jobs of earlier releases only means are known. */
function toolLatencyChart(points: readonly DiagnosticPoint[], tools: readonly string[]): DiagnosticChart {
  const seen = points.flatMap((point) => point.tools ?? []);
  const names = toolOrder(
    tools,
    seen.map((tool) => tool.name),
  );
  const colors = toolColors(names);
  const hasMeansOnly = seen.every((tool) => tool.latency_p50_s == null);
  const of = (name: string, field: "latency_mean_s" | "latency_p50_s" | "latency_p95_s"): Values =>
    read(points, (point) => point.tools?.find((tool) => tool.name === name)?.[field]);
  const lines = names.flatMap((name): Series[] => {
    const color = colors.get(name) ?? TOTAL;
    if (hasMeansOnly) return [line(name, name, color, of(name, "latency_mean_s"))];
    const slow = line(`${name} p95`, `${name} p95`, color, of(name, "latency_p95_s"));
    return [line(name, `${name} p50`, color, of(name, "latency_p50_s")), { ...slow, kind: "dashed" }];
  });
  return made(points, "latency", "Latency of tools", hasMeansOnly ? "mean of a call" : "of a call", "seconds", lines);
}

const graderLatency: Read = (point) => point.grader_latency_mean_s;

function graderLatencyChart(points: readonly DiagnosticPoint[]): DiagnosticChart {
  return made(points, "grading", "Latency of the grader", "mean of a call", "seconds", [
    line("grader", "Grader", PARTS.grading, read(points, graderLatency)),
  ]);
}

function rolloutTimeChart(points: readonly DiagnosticPoint[]): DiagnosticChart {
  return made(points, "time", "Time of a rollout", "until graded", "seconds", [
    line(
      "p50",
      "Median",
      TRAIN,
      read(points, (point) => point.rollout_latency_p50_s),
    ),
    line(
      "p95",
      "95th percentile",
      VALID,
      read(points, (point) => point.rollout_latency_p95_s),
    ),
  ]);
}

function gapChart(points: readonly DiagnosticPoint[]): DiagnosticChart {
  const [title, unit] = ["Trainer against sampler", "gap per token"];
  return one(points, "gap", title, unit, "small", "Gap", (point) => point.optimization?.sampling_logp_difference);
}

function shareChart(points: readonly DiagnosticPoint[]): DiagnosticChart {
  return made(points, "weights", "Importance weights", "share of sampled tokens", "share", [
    line(
      "truncated",
      "Truncated",
      TRAIN,
      read(points, (point) => point.optimization?.truncated_share),
    ),
    line(
      "clipped",
      "Beyond the clip range",
      QUIET,
      read(points, (point) => point.optimization?.clipped_share),
    ),
  ]);
}

function one(
  points: readonly DiagnosticPoint[],
  key: string,
  title: string,
  unit: string,
  kind: DiagnosticChart["kind"],
  label: string,
  value: Read,
): DiagnosticChart {
  return made(points, key, title, unit, kind, [line(key, label, TRAIN, read(points, value))]);
}

function made(
  points: readonly DiagnosticPoint[],
  key: string,
  title: string,
  unit: string,
  kind: DiagnosticChart["kind"],
  series: readonly Series[],
): DiagnosticChart {
  const steps = points.map((point) => point.step);
  const chart = { steps, series: series.filter(hasValues), isStacked: false };
  return { key, title, unit, kind, chart, empty: "Not measured in these steps." };
}

function read(points: readonly DiagnosticPoint[], value: Read): Values {
  return points.map((point) => value(point) ?? null);
}
