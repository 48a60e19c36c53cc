import { expect, test } from "vitest";
import { ExactNumber, parseExactIn, withExact } from "./exact_json";

test("only customers' fields have numbers of another kind", () => {
  const exact = new ExactNumber("12345678901234567890");
  const reply = (id: unknown) => ({ data: [{ score: 2 / 3, item: { id, scores: [1 / 3] } }], total: 0.1 + 0.2 });
  const found = withExact(reply(1.2345678901234567e19), reply(exact), ["item"]);
  expect(found).toEqual(reply(exact));
  const ours = { data: [{ score: new ExactNumber("0.6666666666666666") }] };
  expect(withExact({ data: [{ score: 2 / 3 }] }, ours, ["item"])).toEqual({ data: [{ score: 2 / 3 }] });
});

test("a reply is what it is where it has none of them", () => {
  const text = '{"a": [1, {"b": null}, "c"], "d": 0.30000000000000004}';
  expect(parseExactIn(text, ["item"])).toEqual(JSON.parse(text));
});
