import { expect, test } from "vitest";
import { itemsOf, NEW_EVAL, schemaOf, toEvalOrder } from "./eval_draft";

const REGISTERED = { ...NEW_EVAL.grader, kind: "registered" as const, registered: "grader_1" };

test("an eval as it begins is a whole order", () => {
  const order = toEvalOrder({ ...NEW_EVAL, name: " Questions ", criterionName: "exact", threshold: "0.5" });
  expect(order).toEqual({
    name: "Questions",
    data_source_config: {
      type: "custom",
      item_schema: expect.objectContaining({ required: ["question", "answer"] }),
      include_sample_schema: true,
    },
    testing_criteria: [
      {
        type: "string_check",
        input: "{{sample.output_text}}",
        operation: "eq",
        reference: "{{item.answer}}",
        name: "exact",
        pass_threshold: 0.5,
      },
    ],
  });
});

test("a registered grader is named and nothing else, and what is no schema goes to the API as it is", () => {
  const order = toEvalOrder({ ...NEW_EVAL, grader: REGISTERED, criterionName: "x", threshold: "1", itemSchema: "{" });
  expect(order).toMatchObject({
    testing_criteria: [{ id: "grader_1" }],
    data_source_config: { item_schema: "{" },
  });
  expect((order["testing_criteria"] as object[])[0]).toEqual({ id: "grader_1" });
  expect(order).not.toHaveProperty("name");
});

test("items are what a file of items holds, or a dataset without its prompts", () => {
  const lines = ['{"item": {"a": 1}, "sample": {}}', "", "[]", '{"messages": [], "answer": "4"}', "no json"];
  expect(itemsOf(lines)).toEqual([{ a: 1 }, { answer: "4" }]);
});

test("the schema of items has every field, with each type that it was seen with", () => {
  expect(
    schemaOf([
      { q: "a", n: 1, tags: [] },
      { q: "b", n: null },
    ]),
  ).toEqual({
    type: "object",
    properties: { q: { type: "string" }, n: { type: ["number", "null"] }, tags: { type: "array" } },
    required: ["q", "n"],
  });
});
