import { expect, test } from "vitest";
import { baseline, stats, step, tool } from "../testing/records";
import { excludedChart, graderChart, rewardChart, timeChart, tokensChart, toolChart, toolsSeen } from "./charts";
import {
  fittedRange,
  held,
  indexOf,
  isThinned,
  latest,
  line,
  rewardRange,
  type Series,
  stacked,
  stepAt,
  toldAt,
} from "./series";

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
    ["search", "--c-tool-1", [null, 2, 0]],
    ["list", "--c-tool-2", [null, 0, 0]],
    ["cat", "--c-tool-3", [null, 1, 0.5]],
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

test("held repeats the last measurement, but invents none before the first", () => {
  expect(held([null, 0.2, null, 0.4, null])).toEqual([null, 0.2, 0.2, 0.4, 0.4]);
});

test("what is told of a held series is what is held there, of a line what was measured", () => {
  const values = [null, 0.2, null, 0, null];
  const told = (kind: Series["kind"]) =>
    values.map((_, at) => toldAt({ ...line("v", "V", "--c", values), kind }, at).value);
  expect(told("held")).toEqual(held(values));
  expect(told("line")).toEqual(values);
});

test("an interval is told of the value that it was measured with, and of no other", () => {
  const valid = (mean: number, low: number | null, high: number | null) =>
    stats({ reward_mean: mean, reward_low: low, reward_high: high });
  const steps = [step(10, null, valid(3.5, 2.9, 4.1)), step(11, stats(), null), step(20, null, valid(5, null, null))];
  const drawn = rewardChart(steps).series.find((one) => one.key === "valid")!;
  for (const at of [0, 1]) expect(toldAt(drawn, at)).toEqual({ value: 3.5, interval: [2.9, 4.1] });
  for (const at of [2, null]) expect(toldAt(drawn, at)).toEqual({ value: 5, interval: null });
  expect(toldAt({ ...drawn, kind: "line" }, 1)).toEqual({ value: null, interval: null });
});

test("areas lie on each other, lines and gaps stay", () => {
  const area = { label: "", color: "", kind: "area" } as const;
  const columns = stacked([
    { ...area, key: "a", values: [null, 1, 2] },
    { ...area, key: "b", values: [null, 3, 4] },
    { ...area, key: "t", kind: "line", values: [null, 4, 6] },
  ]);
  expect(columns).toEqual([
    [null, 1, 2],
    [null, 4, 6],
    [null, 4, 6],
  ]);
});

test("latest and range", () => {
  expect(latest([1, 2, null])).toBe(2);
  expect(latest([])).toBeNull();
  expect(rewardRange(0.2, 0.8)).toEqual([0, 1]);
  expect(rewardRange(null, null)).toEqual([0, 1]);
  const [low, high] = rewardRange(-2, 6);
  expect(low).toBeLessThan(-2);
  expect(high).toBeGreaterThan(6);
});

test("the crosshair is on a step, whichever steps are drawn", () => {
  expect([0, 1, 2, null, undefined].map((index) => stepAt([0, 5], index))).toEqual([0, 5, null, null, null]);
  const [coarse, fine] = [
    [0, 100, 200],
    [0, 50, 100, 150, 200],
  ];
  expect([indexOf(coarse, 100), indexOf(fine, 100)]).toEqual([1, 2]);
  expect([indexOf(coarse, 150), indexOf(coarse, -1)]).toEqual([1, null]);
  expect([indexOf(coarse, coarse.at(-1) ?? 0), indexOf(coarse, 1e9), indexOf([], 3)]).toEqual([
    coarse.length - 1,
    coarse.length - 1,
    null,
  ]);
});

test("a fitted axis shows small differences", () => {
  expect(fittedRange(null, null)).toEqual([0, 1]);
  const [low, high] = fittedRange(0.9, 0.95);
  expect(low).toBeGreaterThan(0.89);
  expect(low).toBeLessThan(0.9);
  expect(high).toBeGreaterThan(0.95);
  const flat = fittedRange(0.5, 0.5);
  expect(flat[1]).toBeGreaterThan(flat[0]);
});

test("steps are left out where there are fewer points than steps", () => {
  const at = (...numbers: number[]) => numbers.map((number) => step(number, null, null));
  expect([at(), at(7), at(3, 4, 5), at(0, 1, 3)].map(isThinned)).toEqual([false, false, false, true]);
});
