import { expect, test } from "vitest";
import type { RolloutDetail } from "../api/types";
import { mayHaveMoreAttempts, unendedWords } from "./outcome";

test("of a rollout without an end is told why there is none", () => {
  const rollout = (status: RolloutDetail["status"], id = "trace_1") => ({ id, status });
  expect(unendedWords([])).toBeNull();
  expect(unendedWords([rollout("abandoned"), rollout("in_progress", "trace_2")])).toBe(
    "trace_1 was abandoned: it was cut off, or its step was done again. trace_2 has not ended yet.",
  );
});

test("attempts are followed while a rollout is under way, and a little beyond its end", () => {
  const at = (status: RolloutDetail["status"], now: number) => mayHaveMoreAttempts({ status, created_at: 100 }, now);
  expect([at("in_progress", 4000), at("ended", 101), at("ended", 112)]).toEqual([true, true, true]);
  expect([at("ended", 130), at("abandoned", 101)]).toEqual([false, false]);
});
