import { expect, test } from "vitest";
import { stats, step } from "../testing/records";
import { rewardChart } from "./charts";
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
