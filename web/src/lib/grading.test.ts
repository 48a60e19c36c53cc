import { expect, test } from "vitest";
import type { Grade } from "../api/types";
import { answersOf, rowFields, shownRequest } from "./grading";

const GRADE: Grade = {
  reward: 0,
  scores: {},
  grader: "answer_credit",
  latency_s: 0.1,
  attempts: 1,
  usage: {},
  model_errors: [],
  is_invalid: false,
  parts: {},
};

test("a grader that said nothing but its score has no answer to show", () => {
  expect(answersOf(GRADE)).toEqual([]);
});

test("a single grader says why under its own name", () => {
  const [said] = answersOf({ ...GRADE, reply: '{"score": 0}', error_details: "no number" });
  expect(said).toEqual({
    name: "answer_credit",
    score: null,
    problem: null,
    details: "no number",
    request: null,
    reply: '{"score": 0}',
  });
});

test("of several graders each has its score, its words or its failure", () => {
  const part = { latency_s: 0, usage: {}, model_errors: [] };
  const request = JSON.stringify({ model: "judge", messages: [{ role: "user", content: "How close is 63?" }] });
  const parts = {
    close: { ...part, score: 0.5, request, reply: "half right" },
    form: { ...part, score: 1 },
    judge: { ...part, failure_code: "timeout", failure_message: "did not answer" },
  };
  expect(answersOf({ ...GRADE, parts })).toEqual([
    {
      name: "close",
      score: 0.5,
      problem: null,
      details: null,
      request,
      reply: "half right",
    },
    { name: "judge", score: null, problem: "timeout", details: "did not answer", request: null, reply: null },
  ]);
});

test("a request is shown as it was kept: messages as text, JSON laid out, the rest as it is", () => {
  const asked = { model: "judge", messages: [{ role: "user", content: "How close is 63?" }] };
  expect(shownRequest(JSON.stringify(asked))).toBe("[user]\nHow close is 63?");
  expect(shownRequest('{"item":{"a":1}}')).toBe('{\n  "item": {\n    "a": 1\n  }\n}');
  expect(shownRequest('{"messages": "none"}')).toBe('{\n  "messages": "none"\n}');
  expect(shownRequest('{"messages": [null]}')).toBe('{\n  "messages": [\n    null\n  ]\n}');
  expect(shownRequest('{"sample": \n[cut: 9 characters]\n }')).toBe('{"sample": \n[cut: 9 characters]\n }');
});

test("a row shows its own fields, the reference among them", () => {
  const fields = rowFields({
    messages: [{ role: "user", content: "?" }],
    reference: "64",
    tools: null,
    facts: { assets: [1, 2, 3], source: "a report with a long name, page 12" },
  });
  expect(fields[0]).toEqual({ name: "reference", value: "64", isLong: false });
  expect(fields[1]?.isLong).toBe(true);
  expect(fields[1]?.value.split("\n").length).toBeGreaterThan(3);
  expect(fields).toHaveLength(2);
});
