import { expect, test } from "vitest";
import type { OutputItem } from "../api/types";
import { answerOf, itemInALine, resultsOf } from "./output_items";

const item = (fields: object) => ({ datasource_item: {}, sample: {}, results: [], ...fields }) as unknown as OutputItem;

test("an answer is the last thing said, or called", () => {
  const call = { id: "c", function: { name: "search", arguments: '{"q": 1}' } };
  expect(answerOf(item({ sample: { output: [{ role: "assistant", content: "6" }] } }))).toBe("6");
  expect(answerOf(item({ sample: { output: [{ role: "assistant", content: null, tool_calls: [call] }] } }))).toBe(
    'search({"q": 1})',
  );
  expect(answerOf(item({}))).toBe("");
  expect(itemInALine({ answer: "6", question: "3 + 3?" })).toBe("3 + 3?");
  expect(itemInALine({ a: 1 })).toBe('{"a":1}');
});

test("a result without a verdict says whose doing that is", () => {
  const error = { code: "server_error", message: "HTTP 500", stage: "grader", fault: "endpoint" };
  const [down] = resultsOf(item({ results: [{ name: "a", score: null, passed: false, error }] }));
  expect(down).toMatchObject({ score: null, error: "HTTP 500 (grader: server error)", exchanges: [] });
});

test("what a grader was sent and answered stands by it, or by its part", () => {
  const parts = {
    sub_scores: { style: 1 },
    sub_requests: { style: "is it?" },
    sub_replies: { style: "fine", length: "short" },
  };
  const [graded, asked] = resultsOf(
    item({
      results: [
        { name: "b", score: 0.5, passed: true, error: null, ...parts },
        { name: "c", score: 1, passed: true, error: null, request: "{}" },
      ],
    }),
  );
  expect(graded).toMatchObject({
    error: null,
    parts: [{ name: "style", score: 1 }],
    exchanges: [
      { part: "style", request: "is it?", reply: "fine" },
      { part: "length", request: null, reply: "short" },
    ],
  });
  expect(asked).toMatchObject({ exchanges: [{ part: null, request: "{}", reply: null }] });
});
