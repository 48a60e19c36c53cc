import { expect, test } from "vitest";
import type { JudgeUse } from "../api/types";
import { hrefOfUse, shownUses, wordsOfUse } from "./judges";

const USE: JudgeUse = { kind: "job", id: "ftjob-1", name: "reports", status: "running", graders: ["tone"] };

test("what names a judge is told in a line, with its page where it has one", () => {
  expect(wordsOfUse(USE)).toEqual({ name: "reports", what: "running job, grader tone" });
  expect(hrefOfUse(USE)).toBe("/jobs/ftjob-1");
  const grader: JudgeUse = { kind: "grader", id: "grader_1", name: "tone", status: null, graders: ["tone"] };
  expect(wordsOfUse(grader)).toEqual({ name: "tone", what: "registered grader" });
  expect(hrefOfUse(grader)).toBeNull();
  const made: JudgeUse = { kind: "eval", id: "eval_1", name: null, status: null, graders: ["tone", "facts"] };
  expect(wordsOfUse(made)).toEqual({ name: "eval_1", what: "eval, graders tone, facts" });
  expect(hrefOfUse(made)).toBe("/evals/eval_1");
});

test("a few are shown, and all are counted", () => {
  const uses = Array.from({ length: 6 }, (_, i) => ({ ...USE, id: `ftjob-${i}` }));
  const { shown, more } = shownUses({ uses, uses_left_out: 10 });
  expect(shown.map((use) => use.id)).toEqual(["ftjob-0", "ftjob-1", "ftjob-2", "ftjob-3"]);
  expect(more).toBe(12);
  expect(shownUses({ uses: uses.slice(0, 2), uses_left_out: 0 }).more).toBe(0);
});
