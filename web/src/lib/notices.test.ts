import { expect, test } from "vitest";
import type { Job } from "../api/types";
import { noticesOf } from "./notices";

const job = (fields: object) =>
  ({ id: "ftjob-1", user_provided_suffix: "finance", error: null, fine_tuned_model: null, ...fields }) as Job;

test("an alarm is told once by its kind, however its words change", () => {
  const [one] = noticesOf(job({ status: "running" }), [{ key: "held", text: "Since 1 min.", href: "/" }]);
  const [other] = noticesOf(job({ status: "running" }), [{ key: "held", text: "Since 2 min.", href: "/" }]);
  expect(one).toEqual({ key: "ftjob-1 held", title: "finance needs a look", body: "Since 1 min." });
  expect(other?.key).toBe(one?.key);
});

test("an end is told with what came of it, and a failure once", () => {
  const done = noticesOf(job({ status: "succeeded", fine_tuned_model: "ft:x" }), []);
  expect(done).toEqual([{ key: "ftjob-1 succeeded", title: expect.stringMatching(/succeeded/i), body: "ft:x" }]);
  const failed = noticesOf(job({ status: "failed", error: { message: "Bad." } }), [
    { key: "failed", text: "Bad.", href: "/" },
  ]);
  expect(failed.map((notice) => notice.body)).toEqual(["Bad."]);
});
