import { expect, test } from "vitest";
import { arrivalsIn } from "./arrivals";

const entries = (ids: string) => [...ids].map((id) => ({ id }));
const head = (ids: string, has_more = false) => ({ data: entries(ids), has_more });

test("what stands before the first one that was there is new", () => {
  expect(arrivalsIn(head("xyab", true), entries("abcd"), false)).toEqual({ count: 2, isMore: false });
  expect(arrivalsIn(head("abcd", true), entries("abcd"), false)).toEqual({ count: 0, isMore: false });
});

test("new ones stand between known ones, too: a step's rollouts come by row", () => {
  expect(arrivalsIn(head("axbyc"), entries("abc"), true)).toEqual({ count: 2, isMore: false });
});

test("behind the last known one a list that goes on merely goes on", () => {
  expect(arrivalsIn(head("bcde", true), entries("abc"), false).count).toBe(0);
  expect(arrivalsIn(head("bcde"), entries("abc"), true).count).toBe(2);
});

test("where nothing is known any more there may be more than was looked at", () => {
  expect(arrivalsIn(head("vwxy", true), entries("abc"), false)).toEqual({ count: 4, isMore: true });
  expect(arrivalsIn(head("vwxy", false), entries("abc"), true)).toEqual({ count: 4, isMore: false });
  expect(arrivalsIn(head(""), entries(""), true)).toEqual({ count: 0, isMore: false });
});
