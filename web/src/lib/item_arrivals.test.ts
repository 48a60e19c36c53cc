import { expect, test } from "vitest";
import { newItems } from "./item_arrivals";

const counts = { total: 12, passed: 7, failed: 4, errored: 1 };

test("what came in is counted of the kind of item that the list shows", () => {
  expect((["all", "pass", "fail", "error"] as const).map((filter) => newItems(counts, filter, 1))).toEqual([
    11, 6, 3, 0,
  ]);
});

test("nothing is new where verdicts were withdrawn", () => {
  expect(newItems(counts, "pass", 9)).toBe(0);
});
