import { expect, test } from "vitest";
import { baseline, stats, step, tool } from "../testing/records";
import { excludedChart, graderChart, rewardChart, timeChart, tokensChart, toolChart, toolsSeen } from "./charts";

const STEPS = [
  step(0, null, stats({ reward_mean: 0.25 })),
  step(1, stats({ reward_mean: 0.4, tools: [tool("search", 2), tool("cat", 1)], tool_calls_mean: 3 }), null),
  step(
    2,
    stats({ reward_mean: null, rollouts: 8, excluded: 2, failures_by_code: { timeout: 2 }, tools: [tool("cat", 0.5)] }),
    stats({ reward_mean: 0.75 }),
  ),
];

test("rewards: what was not measured is a gap, never 0", () => {
  const chart = rewardChart(STEPS);
  expect(chart.steps).toEqual([0, 1, 2]);
  expect(chart.series.map((one) => [one.key, one.values])).toEqual([
    ["train", [null, 0.4, null]],
    ["valid", [0.25, null, 0.75]],
    ["baseline", [0.25, 0.25, 0.25]],
  ]);
});

test("failures as 0 are shown where that would say something else", () => {
  const honest = stats({ reward_mean: 0.8, reward_mean_if_failures_were_zero: 0.6 });
  const same = stats({ reward_mean: 0.75, reward_mean_if_failures_were_zero: 0.75 });
  const dashed = (steps: Parameters<typeof rewardChart>[0]) =>
    rewardChart(steps).series.flatMap((one) => (one.kind === "dashed" ? [[one.key, one.values]] : []));
  expect(dashed([step(1, honest, null), step(2, same, same)])).toEqual([["train-zero", [0.6, 0.75]]]);
  expect(dashed([step(1, same, honest)])).toEqual([["valid-zero", [0.6]]]);
  const nothing = stats({ reward_mean: null, reward_mean_if_failures_were_zero: 0 });
  expect(dashed([step(1, nothing, null)])).toEqual([["train-zero", [0]]]);
});

test("graders have lines of their own when there is more than one", () => {
  const scored = (scores: Record<string, number>) => stats({ grader_scores_mean: scores });
  expect(graderChart([step(1, scored({ answer: 0.5 }), null)], "train")).toBeNull();
  const steps = [step(1, scored({ style: 3, answer: 0.5 }), null), step(2, scored({ answer: 0.75 }), null)];
  expect(graderChart(steps, "train")?.series.map((one) => [one.key, one.values])).toEqual([
    ["answer", [0.5, 0.75]],
    ["style", [3, null]],
  ]);
  expect(graderChart(steps, "valid")?.series).toEqual([]);
});

test("graders and tools may have any name", () => {
  const scored = (scores: Record<string, number>) => stats({ grader_scores_mean: scores });
  const steps = [step(1, scored({ constructor: 1, answer: 0.5 }), null), step(2, scored({ answer: 0.75 }), null)];
  expect(graderChart(steps, "train")?.series.map((one) => one.values)).toEqual([
    [0.5, 0.75],
    [1, null],
  ]);
  const called = [step(1, stats({ tools: [tool("total", 2)] }), null)];
  const keys = toolChart(called, "train", ["total"]).series.map((one) => one.key);
  expect(new Set(keys).size).toBe(2);
});

test("without a baseline there is no baseline line", () => {
  expect(rewardChart(STEPS.slice(1)).series.map((one) => one.key)).toEqual(["train", "valid"]);
  expect(rewardChart([]).series).toEqual([]);
});

test("other models that were measured are level lines of their own colours", () => {
  const measured = (model: string, mean: number | null) =>
    baseline({ model, reward: mean === null ? null : { mean, low: mean - 0.1, high: mean + 0.1, rows: 30 } });
  const others = [measured("acme/small", 0.6), measured("acme/down", null), measured("starter", 0)];
  const lines = rewardChart(STEPS, others).series.filter((one) => one.key.startsWith("model "));
  expect(lines.map((one) => [one.label, one.color, one.values, one.kind])).toEqual([
    ["acme/small", "--c-tool-1", [0.6, 0.6, 0.6], "dashed"],
    ["starter", "--c-tool-3", [0, 0, 0], "dashed"],
  ]);
});

test("tools keep the job's order and colour, in each split", () => {
  const chart = toolChart(STEPS, "train", ["search", "list", "cat"]);
  expect(chart.isStacked).toBe(true);
  expect(chart.series.map((one) => [one.key, one.color, one.values])).toEqual([
    ["tool search", "--c-tool-1", [null, 2, 0]],
    ["tool list", "--c-tool-2", [null, 0, 0]],
    ["tool cat", "--c-tool-3", [null, 1, 0.5]],
    ["total", "--c-total", [null, 3, 2]],
  ]);
  expect([...toolsSeen(STEPS)].toSorted()).toEqual(["cat", "search"]);
});

test("where nothing was graded, nothing tells how many calls there were", () => {
  const ungraded = stats({ tool_calls_mean: null, excluded: 8 });
  const steps = [step(1, stats({ tools: [tool("search", 2)] }), null), step(2, ungraded, null)];
  expect(toolChart(steps, "train", ["search", "list"]).series.map((one) => one.values)).toEqual([
    [2, null],
    [0, null],
    [2, null],
  ]);
});

test("excluded rollouts are shares by code", () => {
  expect(excludedChart(STEPS, "train").series).toEqual([
    { key: "timeout", label: "timeout", color: "--c-code-2", values: [null, 0, 0.25], kind: "bar" },
  ]);
  expect(excludedChart(STEPS.slice(0, 2), "train").series).toEqual([]);
});

test("step time leaves out parts that never took any", () => {
  expect(timeChart(STEPS).series.map((one) => one.key)).toEqual(["training", "sampling", "tools", "eval"]);
});

test("tokens of both splits", () => {
  expect(tokensChart(STEPS).series.map((one) => one.values)).toEqual([
    [null, 100, 100],
    [100, null, 100],
  ]);
});
