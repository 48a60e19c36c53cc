import { expect, test } from "vitest";
import type { DiagnosticPoint } from "../api/types";
import { diagnosticCharts } from "./diagnostics";

const NOTHING: DiagnosticPoint = { step: 0, tools: [] };
const STEP: DiagnosticPoint = {
  step: 1,
  groups: 4,
  zero_variance_groups: 1,
  stop_reasons: { answered: 6, length: 2 },
  rollout_latency_p50_s: 2,
  rollout_latency_p95_s: 5,
  grader_latency_mean_s: 0.1,
  sampled_tokens_per_s: 400,
  tools: [{ name: "search", latency_mean_s: 0.5, output_tokens_mean: 9 }],
  optimization: {
    loss: 0,
    grad_norm: 0.3,
    entropy: 1.2,
    learning_rate: 1e-4,
    trained_rollouts: 8,
    trained_tokens: 900,
    sampling_logp_difference: 0.01,
    truncated_share: 0.02,
    clipped_share: null,
    kl: null,
  },
};

const charts = (points: DiagnosticPoint[]) =>
  new Map(diagnosticCharts(points, ["search", "list"]).map((one) => [one.key, one]));
const values = (points: DiagnosticPoint[], key: string) =>
  Object.fromEntries(
    charts(points)
      .get(key)
      ?.chart.series.map((one) => [one.label, one.values]) ?? [],
  );

test("shares are of groups and of rollouts, and steps without training have none", () => {
  expect(values([NOTHING, STEP], "signal")).toEqual({ "All rewards equal": [null, 0.25] });
  expect(values([NOTHING, STEP], "stops")).toEqual({ answered: [null, 0.75], length: [null, 0.25] });
});

test("a reason that did not occur in a step has a share of 0 there", () => {
  const other = { ...STEP, step: 2, stop_reasons: { answered: 3 } };
  expect(values([STEP, other], "stops")["length"]).toEqual([0.25, 0]);
});

test("endpoints are told apart", () => {
  const slow = { name: "list", latency_mean_s: 0.4, latency_p50_s: 0.2, latency_p95_s: 2, output_tokens_mean: 9 };
  expect(values([{ ...STEP, tools: [slow] }], "latency")).toEqual({ "list p50": [0.2], "list p95": [2] });
  expect(values([STEP], "latency"), "of an earlier release").toEqual({ search: [0.5] });
  expect(values([STEP], "grading")).toEqual({ Grader: [0.1] });
  expect(values([STEP], "time")).toEqual({ Median: [2], "95th percentile": [5] });
});

test("a tool has the colour that it has in every other chart", () => {
  const tools = ["cat", "list", "search"].map((name) => ({ name, latency_mean_s: 1, output_tokens_mean: 9 }));
  const drawn = charts([{ ...STEP, tools }]).get("latency")?.chart.series ?? [];
  expect(drawn.map((one) => [one.label, one.color])).toEqual([
    ["search", "--c-tool-1"],
    ["list", "--c-tool-2"],
    ["cat", "--c-tool-3"],
  ]);
});

test("what was not measured is not drawn", () => {
  expect(values([STEP], "kl")).toEqual({});
  expect(values([STEP], "weights")).toEqual({ Truncated: [0.02] });
  expect([...charts([NOTHING]).values()].every((one) => one.chart.series.length === 0)).toBe(true);
});
