import { expect, test } from "vitest";
import { runMark } from "./run_mark";

test("a run that is to be cancelled says so until its worker has seen it", () => {
  expect(runMark({ status: "in_progress", is_cancel_requested: true }).label).toBe("cancelling");
  expect(runMark({ status: "in_progress", is_cancel_requested: false }).label).toBe("running");
  expect(runMark({ status: "canceled", is_cancel_requested: true }).label).toBe("cancelled");
});
