import { expect, test } from "vitest";
import type { Json, JsonObject } from "./draft";
import { describedIn, plainArguments } from "./tool_arguments";

const schema: JsonObject = {
  type: "object",
  properties: { query: { type: "string" }, top: { type: "integer", default: 3 }, deep: { type: "boolean" } },
  required: ["query", "top"],
};

test("a row's description is found by the tool's name, in both of its shapes", () => {
  const whole: Json = { type: "function", function: { name: "search", parameters: schema } };
  expect(describedIn({ tools: [{ name: "cat" }, whole] }, "search")).toEqual(schema);
  expect(describedIn({ tools: [{ name: "search", parameters: schema }] }, "search")).toEqual(schema);
  expect(describedIn({ tools: [whole] }, "cat")).toBeNull();
  expect(describedIn(null, "cat")).toBeNull();
});

test("what is required gets a plain value of its type, or everything where nothing is", () => {
  expect(plainArguments(schema)).toEqual({ query: "", top: 3 });
  const { required: _, ...open } = schema;
  expect(plainArguments(open)).toEqual({ query: "", top: 3, deep: false });
  expect(plainArguments({ properties: { unit: { enum: ["m", "km"] }, list: { type: "array" } } })).toEqual({
    unit: "m",
    list: [],
  });
  expect(plainArguments(null)).toEqual({});
});
