import { expect, test } from "vitest";
import type { RolloutDetail } from "../api/types";
import { unendedWords } from "./outcome";

test("of a rollout without an end is told why there is none", () => {
  const rollout = (status: RolloutDetail["status"], id = "trace_1") => ({ id, status });
  expect(unendedWords([])).toBeNull();
  expect(unendedWords([rollout("abandoned"), rollout("in_progress", "trace_2")])).toBe(
    "trace_1 was abandoned: it was cut off, or its step was done again. trace_2 has not ended yet.",
  );
});
