import { expect, test } from "vitest";
import { curves, stats, step } from "../testing/records";
import { axisNote, overAxis, parseAxis, type PlacedJob, placeText, withAxis } from "./axes";
import { rewardChart } from "./charts";

const at = (number: number, reward: number, createdAt: number) =>
  step(number, null, stats({ reward_mean: reward }), createdAt);

const steps = [at(0, 0.1, 100), at(2, 0.2, 160), at(3, 0.3, 160)];
const drawn = { object: "fine_tuning.job.curves" as const, ...curves(steps) };
const job: PlacedJob = { startedAt: 40, curves: { job: "one", curves: drawn, rollouts_spent: [12, 40, 68] } };
const kept = { step: 2, label: "checkpoint kept", color: "--good" };
const chart = rewardChart(steps, [], { markers: [kept] });

test("a job's steps lie where they had cost so many rollouts, its marks with them", () => {
  const over = overAxis(chart, job, "rollouts");
  expect(over.steps).toEqual([12, 40, 68]);
  expect(over.axis).toEqual({ unit: "rollouts", steps: [0, 2, 3] });
  expect(over.markers).toEqual([{ ...kept, place: 40 }]);
  expect(over.series).toEqual(chart.series);
});

test("time runs from the job's start, and steps of one second keep places of their own", () => {
  const over = overAxis(chart, job, "time");
  expect(over.axis?.unit).toBe("seconds");
  expect(over.steps).toEqual([60, 120, 120.001]);
  const long = [at(0, 0.1, 0), at(1, 0.2, 36_000)];
  const days = { startedAt: 0, curves: { job: "l", curves: { ...drawn, ...curves(long) } } };
  expect(overAxis(rewardChart(long), days, "time")).toMatchObject({ steps: [0, 10], axis: { unit: "hours" } });
});

test("over steps a chart stays what it is", () => {
  expect(overAxis(chart, job, "step")).toBe(chart);
});

test("places and axes are told in words", () => {
  expect([placeText("step", 3), placeText("rollouts", 120), placeText("minutes", 2.5)]).toEqual([
    "step 3",
    "120 rollouts",
    "2.50 minutes",
  ]);
  expect([axisNote("rollouts"), axisNote("hours")]).toEqual([
    "rollouts, of training and validation",
    "hours since the start",
  ]);
});

test("the address keeps the axis beside what else it says", () => {
  expect(["?axis=time", "axis=rollouts&step=3", "axis=nonsense", ""].map(parseAxis)).toEqual([
    "time",
    "rollouts",
    "step",
    "step",
  ]);
  expect(withAxis("?step=3", "time")).toBe("?step=3&axis=time");
  expect(withAxis("?axis=time", "step")).toBe("");
});
