import { expect, test } from "vitest";
import { flatArguments, prettyJson } from "./json_text";

test("arguments are read as pairs when they are flat", () => {
  expect(flatArguments('{"query": "x", "top": 3, "deep": null}')).toEqual([
    ["query", "x"],
    ["top", "3"],
    ["deep", "null"],
  ]);
  expect(flatArguments('{"a": {"b": 1}}')).toBeNull();
  expect(flatArguments("[1]")).toBeNull();
  expect(flatArguments('{"query": ')).toBeNull();
});

test("what the model wrote is shown even when it is not JSON", () => {
  expect(prettyJson('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(prettyJson('{"a":')).toBe('{"a":');
});

test("no digit of a number is lost", () => {
  expect(prettyJson('{"id": 9007199254740993, "price": 1.50}')).toBe(
    '{\n  "id": 9007199254740993,\n  "price": 1.50\n}',
  );
  expect(prettyJson("12345678901234567890")).toBe("12345678901234567890");
  expect(flatArguments('{"order_id": 123456789012345678, "share": 1e2}')).toEqual([
    ["order_id", "123456789012345678"],
    ["share", "1e2"],
  ]);
});

test.each([
  "[]",
  '{"a":[],"b":{},"c":[[1,[2]],{"d":null}]}',
  '"a {\\"quoted\\": [1]} text\\\\"',
  '{"\\u00e9\\ud83d\\ude00":"\\u0000 , : \\n"}',
])("%s is laid out as JavaScript does it, also beside what that writes otherwise", (text) => {
  expect(prettyJson(text)).toBe(JSON.stringify(JSON.parse(text), null, 2));
  expect(prettyJson(`[-0,${text}]`)).toBe(JSON.stringify([0, JSON.parse(text)], null, 2).replace("0", "-0"));
});

test("names stand in the order in which they were written", () => {
  expect(prettyJson('{"10":1,"2":2}')).toBe('{\n  "10": 1,\n  "2": 2\n}');
});

test("megabytes of escapes are laid out, too", () => {
  const long = JSON.stringify({ text: '\\"'.repeat(1_000_000) }).replace("}", ',"id":9007199254740993}');
  expect(prettyJson(long).length).toBeGreaterThan(4_000_000);
});

test("what is written twice is shown twice", () => {
  expect(flatArguments('{"a": 1, "a": 2}')).toEqual([
    ["a", "1"],
    ["a", "2"],
  ]);
  expect(flatArguments("{}")).toEqual([]);
});
