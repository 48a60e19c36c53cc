import { expect, test } from "vitest";
import { ApiError } from "../api/http";
import { maySend, standingOf } from "./estimate_standing";

const asked = { order: "a", asked: "a", isPlaceholder: false, hasData: true, error: null };

test("figures of the order before are none of this one, and it waits for its own", () => {
  const standings = [
    standingOf({ ...asked, order: "b" }),
    standingOf({ ...asked, isPlaceholder: true }),
    standingOf({ ...asked, hasData: false }),
  ];
  expect(standings).toEqual(["asking", "asking", "asking"]);
  expect(standings.map(maySend)).toEqual([false, false, false]);
  expect(standingOf(asked)).toBe("current");
  expect(maySend("current")).toBe(true);
});

test("what the platform would not take is not sent; what it cannot tell of may be", () => {
  const failed = (status: number) => standingOf({ ...asked, hasData: false, error: new ApiError(status, "no") });
  expect([400, 404, 422].map(failed)).toEqual(["refused", "refused", "refused"]);
  expect([0, 429, 500, 503].map(failed)).toEqual(["unknown", "unknown", "unknown", "unknown"]);
  expect([maySend("refused"), maySend("unknown"), maySend("none")]).toEqual([false, true, false]);
  // The refusal is one of the order before.
  expect(standingOf({ ...asked, order: "b", error: new ApiError(400, "no") })).toBe("asking");
});
