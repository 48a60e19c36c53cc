import { expect, test } from "vitest";
import { curves, job, stats, step } from "../testing/records";
import { besideBaseline, difference, elapsed, figures, isTerminal, NO_CURVES, progress, refined } from "./summary";

test("progress is unknown until there are steps", () => {
  expect(progress(job())).toBeNull();
  expect(progress(job({ total_steps: 20 }))).toEqual({ step: 0, total: 20, share: 0 });
  expect(progress(job({ total_steps: 20, current_step: 5 }))).toEqual({ step: 5, total: 20, share: 0.25 });
});

test("time runs from the start, or from creation, to the end", () => {
  expect(elapsed(job(), 130)).toBe(20);
  expect(elapsed(job({ finished_at: 115 }), 130)).toBe(5);
  expect(elapsed(job({ started_at: null }), 130)).toBe(30);
});

test("best is the highest evaluation after step 0, later wins ties", () => {
  const at = (number: number, reward: number | null) =>
    step(number, number ? stats() : null, stats({ reward_mean: reward, excluded: 1 }));
  const sums = figures(job(), curves([at(0, 0.9), at(4, 0.5), at(8, 0.7), at(12, 0.7), at(16, null)]));
  expect(sums.bestStep).toBe(12);
  expect(sums.baseline?.reward_mean).toBe(0.9);
  expect(sums.latestValid).toBe(0.7);
  expect(sums.rollouts).toBe(8 * 9);
  expect(sums.excluded).toBe(5);
  expect(figures(job(), NO_CURVES)).toMatchObject({
    baseline: null,
    best: null,
    bestStep: null,
    latestValid: null,
    rollouts: 0,
  });
});

test("best is the platform's choice, once there is more than the baseline", () => {
  const at = (number: number, reward: number, excluded = 0) =>
    step(number, null, stats({ reward_mean: reward, rollouts: 8, excluded }));
  const all = curves([at(0, 0.4), at(4, 0.5), at(8, 0.3, 4), at(12, 0.95, 5)]);
  const told = (chosen: number | null, known = all) => {
    const { bestStep, best } = figures(job({ best_step: chosen }), known);
    return [bestStep, best?.reward_mean ?? null];
  };
  expect(told(4)).toEqual([4, 0.5]);
  expect(told(0)).toEqual([0, 0.4]);
  expect(told(0, curves([at(0, 0.4)]))).toEqual([null, null]);
  // Not known, or of a step that the curves do not know yet: what lost more than half of its rollouts ranks last.
  expect(told(null)).toEqual([4, 0.5]);
  expect(told(16)).toEqual([4, 0.5]);
  expect(told(null, curves([at(0, 0.4), at(8, 0.3, 5), at(12, 0.2, 5)]))).toEqual([8, 0.3]);
});

test("differences need both sides", () => {
  expect(difference(0.5, null)).toBeNull();
  expect(difference(0.5, 0.25)).toBe(0.25);
});

test("a paused job goes on", () => {
  expect(
    ["succeeded", "failed", "cancelled", "paused", "running"].map((status) => isTerminal({ status } as never)),
  ).toEqual([true, true, true, false, false]);
});

test("a part in more detail adds its steps and no sums; what was voided since is not shown", () => {
  const at = (number: number) => step(number, stats(), null);
  const whole = { ...curves([at(0), at(50), at(100)]), steps: 101, rollouts: 800, excluded: 3 };
  const more = refined(whole, curves([at(50), at(51), at(52), at(101)]));
  expect(more.data.map((one) => one.step)).toEqual([0, 50, 51, 52, 100]);
  expect(more).toMatchObject({ steps: 101, rollouts: 800, excluded: 3 });
  expect(refined(whole, undefined)).toBe(whole);
});

test("a figure is called the baseline's only where it is", () => {
  expect(besideBaseline(undefined, 2)).toEqual({ value: 2, note: "baseline", change: null });
  expect(besideBaseline(2, 4)).toEqual({ value: 2, note: "baseline 4.00", change: -0.5 });
  expect(besideBaseline(3.2, 0)).toEqual({ value: 3.2, note: "baseline 0.00", change: null });
  expect(besideBaseline(3.2, null)).toEqual({ value: 3.2, note: "no baseline", change: null });
});

test("the latest training reward is told with its step, which need not be the last", () => {
  const lost = step(2, stats({ reward_mean: null, excluded: 8 }), null);
  const sums = figures(job(), curves([step(1, stats({ reward_mean: 0.4 }), null), lost]));
  expect([sums.latestTrain, sums.latestTrainStep]).toEqual([0.4, 1]);
  expect(figures(job(), curves([lost])).latestTrainStep).toBeNull();
});
