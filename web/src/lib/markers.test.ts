import { expect, test } from "vitest";
import type { JobEvent, Step } from "../api/types";
import type { CheckpointRow } from "./checkpoint_rows";
import { markersOf, markersTold } from "./markers";

const row = (step: number, isBest = false) => ({ step, isBest }) as CheckpointRow;
const event = (data: unknown) => ({ data }) as JobEvent;
const step = (number: number, excluded: number, valid?: [low: number, high: number]) => {
  const train = number === 0 ? null : { rollouts: 100, excluded };
  const measured = valid ? { reward_low: valid[0], reward_high: valid[1] } : null;
  return { step: number, record: { train, valid: measured } } as unknown as Step;
};

test("checkpoints and stops are marked at their steps, and the untrained policy is not", () => {
  const marks = markersOf(
    [row(20, true), row(10), row(0)],
    [event({ code: "held", step: 12 }), event({ code: "weather", step: 3 }), event({ code: "paused" }), event(null)],
    [],
  );
  expect(marks.map((mark) => [mark.step, mark.label])).toEqual([
    [10, "checkpoint kept"],
    [12, "held"],
    [20, "best checkpoint"],
  ]);
});

test("a resumed run and what was refused are marked in colours of their own", () => {
  const marks = markersOf([], [event({ code: "refused_calls", step: 4 }), event({ code: "resumed", step: 2 })], []);
  expect(marks).toEqual([
    { step: 2, label: "resumed from", color: "--good" },
    { step: 4, label: "calls refused", color: "--bad" },
  ]);
});

test("an alarm is marked where it begins, and again where it comes back", () => {
  const steps = [
    step(0, 0, [0.4, 0.6]), step(1, 26), step(2, 30, [0.1, 0.3]), step(3, 2), step(4, 90, [0.1, 0.2]),
    step(5, 25, [0.3, 0.5]), step(6, 0, [0.1, 0.2]),
  ]; // prettier-ignore
  expect(markersOf([], [], steps).map((mark) => [mark.step, mark.label])).toEqual([
    [1, "many excluded from"],
    [2, "below the untrained policy from"],
    [4, "many excluded from"],
    [6, "below the untrained policy from"],
  ]);
});

test("they are told together, or those of one step", () => {
  const marks = markersOf([row(20, true), row(10), row(15)], [event({ code: "held", step: 10 })], []);
  expect(markersTold(marks, null)).toBe("checkpoint kept: 10, 15; held: 10; best checkpoint: 20");
  expect(markersTold(marks, 10)).toBe("checkpoint kept: 10; held: 10");
  expect(markersTold(marks, 11)).toBe("");
});
