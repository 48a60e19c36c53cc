import { expect, test } from "vitest";
import type { Eval, EvalRun, RewardDifference } from "../api/types";
import {
  criteriaOf,
  differenceWords,
  itemFields,
  hasUnjudged,
  passAtK,
  passedShare,
  runShare,
  scoreWords,
  verdictWords,
} from "./evals";

const EXACT = {
  id: "exact-1",
  type: "string_check",
  name: "exact",
  operation: "eq",
  input: "{{a}}",
  reference: "{{b}}",
};
const definition = (...criteria: object[]) =>
  ({
    testing_criteria: criteria,
    data_source_config: {
      type: "custom",
      schema: { properties: { item: { properties: { question: {}, answer: {} } } } },
    },
  }) as unknown as Eval;
const run = (fields: object) =>
  ({
    result_counts: { passed: 3, failed: 1, errored: 2, total: 6 },
    figures: null,
    samples_per_row: 2,
    rows: 6,
    ...fields,
  }) as unknown as EvalRun;

test("a criterion says in a line what it looks at", () => {
  const [exact, judge, code] = criteriaOf(
    definition(
      EXACT,
      { id: "j", type: "score_model", model: "lab/judge", pass_threshold: 0.6 },
      { id: "c", type: "python" },
    ),
  );
  expect(exact).toEqual({
    id: "exact-1",
    name: "exact",
    type: "string check",
    detail: "{{a}} = {{b}}",
    passesFrom: null,
  });
  expect(judge).toMatchObject({ name: "score_model", detail: "by the judge lab/judge", passesFrom: 0.6 });
  expect(code?.detail).toBeNull();
  expect(itemFields(definition())).toEqual(["question", "answer"]);
});

test("the share passed leaves out what has no verdict, before there are figures too", () => {
  expect(passedShare(run({}))).toBe(0.75);
  expect(passedShare(run({ figures: { passed: { mean: 0.7 } } }))).toBe(0.7);
  expect(passedShare(run({ result_counts: { passed: 0, failed: 0, errored: 2, total: 2 } }))).toBeNull();
  expect(runShare(run({}))).toBe(0.5);
  expect(runShare(run({ rows: null }))).toBeNull();
});

test("a run that is over has something left to judge where it has errors, or did not come to its end", () => {
  const counts = { total: 4, passed: 3, failed: 1, errored: 0 };
  const errored = { ...counts, failed: 0, errored: 1 };
  expect(hasUnjudged(run({ status: "completed", result_counts: counts }))).toBe(false);
  expect(hasUnjudged(run({ status: "completed", result_counts: errored }))).toBe(true);
  expect(hasUnjudged(run({ status: "canceled", result_counts: counts }))).toBe(true);
  expect(hasUnjudged(run({ status: "failed", result_counts: counts }))).toBe(true);
  expect(hasUnjudged(run({ status: "in_progress", result_counts: errored }))).toBe(false);
});

test("pass@k is told of the most samples, and not of one", () => {
  expect(passAtK(run({ figures: { pass_at_k: { 8: 0.9, 1: 0.5, 2: 0.7 } } }))).toEqual({ k: 8, value: 0.9 });
  expect(passAtK(run({ figures: { pass_at_k: { 1: 0.5 } } }))).toBeNull();
});

const difference = (low: number, high: number): RewardDifference => ({
  difference: (low + high) / 2,
  low,
  high,
  rows: 10,
  better: 3,
  worse: 1,
  same: 6,
});

test("scores that all changed alike have a difference without an interval", () => {
  const criterion = { testing_criteria: "a", score: null };
  expect(scoreWords({ ...criterion, rows: 2, score_difference: 1 })).toEqual({
    text: "+1.000 over 2 items; nothing tells how their differences spread",
    tone: "muted",
  });
  expect(scoreWords({ ...criterion, rows: 0, score_difference: null }).text).toBe("no score in both");
  const score = difference(0.1, 0.3);
  expect(scoreWords({ ...criterion, score, rows: 10, score_difference: 0.2 })).toEqual(differenceWords(score, false));
});

test("what chance explains is not called better", () => {
  expect(differenceWords(difference(0.1, 0.3), true)).toEqual({
    text: "+20.0 points (95 %: +10.0 to +30.0)",
    tone: "good",
  });
  expect(differenceWords(difference(-0.3, -0.1), false)).toEqual({
    text: "−0.200 (95 %: −0.300 to −0.100)",
    tone: "bad",
  });
  expect(differenceWords(difference(-0.1, 0.3), true).tone).toBe("muted");
  expect(verdictWords(difference(-0.1, 0.3))).toContain("chance");
  expect(verdictWords(difference(-0.3, -0.1))).toContain("B is better");
});
