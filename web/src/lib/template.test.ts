import { expect, test } from "vitest";
import { filledIn, sampleOf } from "./template";

const item = {
  answer: 7,
  "full name": "x",
  messages: [{ content: "How much?" }, { content: "last" }],
  deep: { a: [1] },
};
const sample = sampleOf('{"total": 8}');
const text = (template: string) => filledIn(template, { item, sample }).map((piece) => piece.text);

test("variables become values of the row and of the answer, what is no text as JSON", () => {
  expect(text("A {{item.answer}} B {{ sample.output_json.total }}")).toEqual(["A ", "7", " B ", "8"]);
  expect(text("{{item.messages[0].content}}{{item.messages[-1]['content']}}")).toEqual(["How much?", "last"]);
  expect(text('{{item["full name"]}}{{item.full name}}{{item.deep}}')).toEqual(["x", "x", '{"a":[1]}']);
});

test("a variable that names nothing is told apart", () => {
  for (const source of ["item.none", "item.messages[9]", "row.answer", "item.answer.more", "item answer"]) {
    expect(filledIn(`{{${source}}}`, { item, sample })).toEqual([{ text: `{{${source}}}`, kind: "missing" }]);
  }
  expect(sampleOf("no JSON").output_json).toBeNull();
});
