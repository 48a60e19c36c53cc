import { expect, test } from "vitest";
import type { Job, Step } from "../api/types";
import { alarmsOf } from "./alarms";
import type { JobCurves } from "./summary";

const job = (fields: object = {}) =>
  ({ id: "ftjob-1", status: "running", hold: null, pause_reason: null, error: null, ...fields }) as Job;

interface Told {
  excluded?: number;
  valid?: [low: number, high: number];
  evaluated_s?: number;
}

function step(number: number, { excluded = 0, valid, evaluated_s = 0 }: Told = {}): Step {
  const train = number === 0 ? null : { rollouts: 100, excluded };
  const measured = valid ? { reward_low: valid[0], reward_high: valid[1] } : null;
  const record = { train, valid: measured, timing: { eval_s: evaluated_s } };
  return { step: number, created_at: 1000 + 20 * number, record } as unknown as Step;
}

const curves = (...data: Step[]) => ({ data }) as unknown as JobCurves;
const keys = (one: Job, known: JobCurves, now = 1100) => alarmsOf(one, known, now).map((alarm) => alarm.key);

test("a job that goes on well raises none", () => {
  const known = curves(step(0, { valid: [0.2, 0.3] }), step(1), step(2, { valid: [0.4, 0.6] }));
  expect(keys(job(), known)).toEqual([]);
});

test("a hold and a failure say what is the matter, and where to look", () => {
  const hold = { endpoint: "tool `search`", since: 1040, reason: "down", step: 3 };
  expect(alarmsOf(job({ hold, status: "paused" }), curves(), 1100)).toEqual([
    { key: "held", text: expect.stringContaining("tool `search`"), href: "/jobs/ftjob-1#endpoints" },
  ]);
  const failed = job({ status: "failed", error: { message: "The file is bad." } });
  expect(alarmsOf(failed, curves(), 1100)).toEqual([
    { key: "failed", text: "The file is bad.", href: "/jobs/ftjob-1#events" },
  ]);
});

test("a job that the platform paused says why, as nobody else resumes it", () => {
  const pause_reason = { code: "platform_failure", message: "8 of 8 rollouts were lost.", since: 1040, step: 3 };
  expect(alarmsOf(job({ pause_reason, status: "paused" }), curves(), 1100)).toEqual([
    { key: "paused", text: "8 of 8 rollouts were lost.", href: "/jobs/ftjob-1#events" },
  ]);
  expect(keys(job({ status: "paused" }), curves())).toEqual([]);
});

test("the last step's excluded rollouts count, above a quarter", () => {
  expect(keys(job(), curves(step(1, { excluded: 25 })))).toEqual([]);
  const [alarm] = alarmsOf(job(), curves(step(1), step(2, { excluded: 26 })), 1100);
  expect(alarm?.href).toBe("/jobs/ftjob-1/rollouts?split=train&outcome=failed&from_step=2&to_step=2");
  expect(keys(job(), curves(step(1, { excluded: 90 }), step(2)))).toEqual([]);
});

test("a reward has fallen where the intervals leave no doubt", () => {
  const begun = step(0, { valid: [0.4, 0.6] });
  expect(keys(job(), curves(begun, step(1, { valid: [0.1, 0.39] })))).toEqual(["fallen"]);
  expect(keys(job(), curves(begun, step(1, { valid: [0.1, 0.41] })))).toEqual([]);
  expect(keys(job(), curves(begun))).toEqual([]);
});

test("a running job stalls when a step takes several times as long as usual", () => {
  const known = curves(step(1), step(2), step(3));
  expect(keys(job(), known, 1160)).toEqual([]);
  expect(keys(job(), known, 1161)).toEqual(["stalled"]);
  expect(keys(job({ status: "paused" }), known, 9999)).toEqual([]);
  expect(keys(job(), curves(step(1)), 9999)).toEqual([]);
});

test("where steps are left out, one takes its part of the time between two that are known", () => {
  const known = curves(step(10), step(20), step(30));
  expect(keys(job(), known, 1000 + 600 + 101)).toEqual(["stalled"]);
  const [alarm] = alarmsOf(job(), known, 1000 + 600 + 120);
  expect(alarm?.text).toBe("No step was done for 2 min 00 s; one usually takes 20 s.");
});

test("neither a long evaluation nor a job that was just resumed stalls", () => {
  const known = curves(step(0, { evaluated_s: 300 }), step(1), step(2), step(3));
  expect(keys(job(), known, 1060 + 700)).toEqual([]);
  expect(keys(job(), known, 1060 + 701)).toEqual(["stalled"]);
  const resumed = job({ progress: { since: 9000 } });
  expect(keys(resumed, curves(step(1), step(2), step(3)), 9100)).toEqual([]);
  expect(keys(resumed, curves(step(1), step(2), step(3)), 9101)).toEqual(["stalled"]);
});

test("what its customer ended raises none", () => {
  expect(keys(job({ status: "cancelled" }), curves(step(1, { excluded: 90 })))).toEqual([]);
});
