import { expect, test } from "vitest";
import type { LatestRun } from "../api/types";
import { latestRunView } from "./latest_run";

const run = (given: Partial<LatestRun>): LatestRun => ({
  id: "evalrun_1",
  name: "nightly",
  status: "completed",
  is_cancel_requested: false,
  model: "starter",
  created_at: 1,
  finished_at: 2,
  samples: 8,
  finished: 8,
  errored: 0,
  passed: { mean: 0.5, low: 0.25, high: 0.75, rows: 4 },
  score: null,
  ...given,
});

test("a run that is over tells how much passed, with intervals", () => {
  expect(latestRunView(run({}))).toEqual({ value: "50 %", notes: ["25 % to 75 %"] });
  const score = { mean: 0.6, low: 0.4, high: 0.8, rows: 4 };
  expect(latestRunView(run({ score })).notes).toEqual(["25 % to 75 %", "score 0.60 [0.40, 0.80]"]);
});

test("one that goes tells how far it is, once its items are counted", () => {
  expect(latestRunView(run({ status: "in_progress", finished: 2, passed: null }))).toEqual({
    value: "25 %",
    notes: ["done"],
  });
  expect(latestRunView(run({ status: "queued", samples: null, finished: 0, passed: null })).value).toBe("–");
});

test("of one that failed before anything was measured there is nothing to tell", () => {
  expect(latestRunView(run({ status: "failed", passed: null }))).toEqual({ value: "–", notes: [] });
});
