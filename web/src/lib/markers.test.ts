import { expect, test } from "vitest";
import type { JobEvent } from "../api/types";
import type { CheckpointRow } from "./checkpoint_rows";
import { markersOf, markersTold } from "./markers";

const row = (step: number, isBest = false) => ({ step, isBest }) as CheckpointRow;
const event = (data: unknown) => ({ data }) as JobEvent;

test("checkpoints and stops are marked at their steps, and the untrained policy is not", () => {
  const marks = markersOf(
    [row(20, true), row(10), row(0)],
    [event({ code: "held", step: 12 }), event({ code: "weather", step: 3 }), event({ code: "paused" }), event(null)],
  );
  expect(marks.map((mark) => [mark.step, mark.label])).toEqual([
    [10, "checkpoint kept"],
    [12, "held"],
    [20, "best checkpoint"],
  ]);
});

test("they are told together, or those of one step", () => {
  const marks = markersOf([row(20, true), row(10), row(15)], [event({ code: "held", step: 10 })]);
  expect(markersTold(marks, null)).toBe("checkpoint kept: 10, 15; held: 10; best checkpoint: 20");
  expect(markersTold(marks, 10)).toBe("checkpoint kept: 10; held: 10");
  expect(markersTold(marks, 11)).toBe("");
});
