import { expect, test } from "vitest";
import { curves, job, stats, step } from "../testing/records";
import { validation } from "./job_figures";
import { NO_CURVES } from "./summary";

const at = (number: number, reward: number, low: number | null = null) =>
  step(number, null, { ...stats({ reward_mean: reward }), reward_low: low, reward_high: low === null ? null : 1 });
const estimate = (mean: number) => ({ mean, low: mean - 0.1, high: mean + 0.1, rows: 20 });

test("before an evaluation after step 0 only the beginning is known", () => {
  expect(validation(job(), NO_CURVES)).toMatchObject({ from: null, to: null, gain: null });
  expect(validation(job(), curves([at(0, 0.2), step(1, stats(), null)]))).toMatchObject({ from: 0.2, to: null });
});

test("while it trains: the last validation with its interval", () => {
  const told = validation(job(), curves([at(0, 0.25), at(2, 0.75, 0.5), step(3, stats(), null)]));
  expect(told).toEqual({ from: 0.25, to: 0.75, interval: [0.5, 1], gain: 0.5, isFinal: false });
});

test("final figures count more than a validation that chose its checkpoint, and the gain is that of the rows", () => {
  const gain = { difference: 0.4, low: 0.1, high: 0.6, rows: 20, better: 9, worse: 1, same: 10 };
  const figures = { rows: "test" as const, step: 2, selected_at: 0.9, reward: estimate(0.7), untrained: estimate(0.2) };
  const told = validation(job({ final_figures: { ...figures, gain } }), curves([at(0, 0.25), at(2, 0.9)]));
  expect(told).toMatchObject({ from: 0.2, to: 0.7, gain: 0.4, isFinal: true });
  expect(told.interval).toEqual([estimate(0.7).low, estimate(0.7).high]);
  expect(validation(job({ final_figures: { ...figures, gain: null } }), NO_CURVES).gain).toBeCloseTo(0.5);
});
