import { expect, test } from "vitest";
import { curves, stats, step } from "../testing/records";
import { type ComparedJob, comparison, parseCompared, valueAt } from "./compare";

const at = (number: number, reward: number, createdAt: number) =>
  step(number, null, stats({ reward_mean: reward }), createdAt);

function compared(id: string, startedAt: number | null, steps: ReturnType<typeof at>[], spent: number[]): ComparedJob {
  const drawn = { object: "fine_tuning.job.curves" as const, ...curves(steps) };
  return { id, name: id, startedAt, curves: { job: id, curves: drawn, rollouts_spent: spent } };
}

const small = compared("small", 100, [at(0, 0.1, 110), at(2, 0.3, 130)], [12, 40]);
const large = compared("large", 1000, [at(0, 0.2, 1010), at(1, 0.5, 1100)], [12, 140]);

test("jobs are named by the address, each once, eight at most", () => {
  expect(parseCompared("job=a&job=b&job=a&job=&x=c")).toEqual(["a", "b"]);
  expect(parseCompared([..."abcdefghij"].map((id) => `job=${id}`).join("&"))).toEqual([..."abcdefgh"]);
});

test("steps of all jobs are on one axis, and a job has values at its own", () => {
  const { chart, unit } = comparison([small, large], "valid", "step");
  expect(unit).toBe("step");
  expect(chart.steps).toEqual([0, 1, 2]);
  expect(chart.series.map((one) => one.values)).toEqual([
    [0.1, null, 0.3],
    [0.2, 0.5, null],
  ]);
  expect(new Set(chart.series.map((one) => one.color)).size).toBe(2);
});

test("what a reward cost is another axis", () => {
  const { chart } = comparison([small, large], "valid", "rollouts");
  expect(chart.steps).toEqual([12, 40, 140]);
  expect(chart.series[1]?.values).toEqual([0.2, null, 0.5]);
});

test("time runs from each job's own start, in a unit that fits, and never back", () => {
  expect(comparison([small, large], "valid", "time")).toMatchObject({
    unit: "seconds",
    chart: { steps: [10, 30, 100] },
  });
  const long = compared("long", null, [at(0, 0.1, 500), at(1, 0.2, 500 + 7200), at(2, 0.3, 500 + 7100)], []);
  const { chart, unit } = comparison([long], "valid", "time");
  expect([unit, chart.steps]).toEqual(["minutes", [0, 120, expect.closeTo(120, 3)]]);
  expect(chart.steps[2]).toBeGreaterThan(120);
});

test("of steps that ended in one second each keeps its value and its interval", () => {
  const evaluated = step(4, stats(), stats({ reward_mean: 0.7, reward_low: 0.6, reward_high: 0.8 }), 130);
  const trained = step(5, stats({ reward_mean: 0.4 }), null, 130);
  const job = compared("stale", 100, [at(0, 0.1, 110), evaluated, trained], [12, 40, 68]);
  const { chart } = comparison([job], "valid", "time", { isSmooth: false, hasIntervals: true });
  expect(chart.steps).toEqual([10, 30, 30.001]);
  const [of] = chart.series;
  expect(of?.values).toEqual([0.1, 0.7, null]);
  expect(of?.interval).toEqual({ low: [null, 0.6, null], high: [null, 0.8, null] });
  expect(valueAt(of!, chart.steps, null)).toBe(0.7);
  expect(comparison([job], "train", "time").chart.series[0]?.values).toEqual([null, 0.5, 0.4]);
});

test("under the cursor is the last value before it, without a cursor the last of all", () => {
  const { chart } = comparison([small, large], "valid", "step");
  const [of] = chart.series;
  expect([null, 0, 1, 5, -1].map((cursor) => valueAt(of!, chart.steps, cursor))).toEqual([0.3, 0.1, 0.1, 0.3, null]);
});

test("intervals lie where a job measured them, and smoothed lines have none", () => {
  const sure = step(0, null, stats({ reward_mean: 0.2, reward_low: 0.1, reward_high: 0.4 }), 1);
  const later = step(2, null, stats({ reward_mean: 0.6, reward_low: 0.5, reward_high: 0.7 }), 2);
  const both = [compared("sure", 0, [sure, later], [1, 2]), large];
  const { series } = comparison(both, "valid", "step", { isSmooth: false, hasIntervals: true }).chart;
  expect(series[0]?.interval).toEqual({ low: [0.1, null, 0.5], high: [0.4, null, 0.7] });
  expect(series[1]).not.toHaveProperty("interval");
  const smooth = comparison(both, "valid", "step", { isSmooth: true, hasIntervals: true }).chart.series[0];
  expect(smooth).not.toHaveProperty("interval");
  // Over three values: a half of the new one, unbiased at the beginning.
  expect(smooth?.values).toEqual([0.2, null, expect.closeTo((0.2 + 2 * 0.6) / 3)]);
});

test("nothing is drawn of jobs that have not begun", () => {
  expect(comparison([compared("new", null, [], [])], "train", "time").chart.steps).toEqual([]);
});
