import { expect, test } from "vitest";
import { at, errorOf, queryString } from "./http";
import { parseMessage } from "./stream";

test("paths and queries are escaped", () => {
  expect(at("a/b", "steps")).toBe("/a%2Fb/steps");
  expect(queryString({ a: 1, b: undefined, c: "x y" })).toBe("?a=1&c=x+y");
  expect(queryString({ a: undefined })).toBe("");
  expect(queryString({ code: ["x", "y"], limit: 2 })).toBe("?code=x&code=y&limit=2");
});

test("the envelope's message is the error's", async () => {
  const body = JSON.stringify({
    error: { message: "No such job.", type: "invalid_request_error", param: null, code: null },
  });
  expect(await errorOf(new Response(body, { status: 404 }))).toMatchObject({ status: 404, message: "No such job." });
  expect((await errorOf(new Response("<html>", { status: 502 }))).message).toContain("502");
});

test("messages of unknown types are passed over", () => {
  expect(parseMessage("job", '{"id": "ftjob-1"}')).toEqual({ type: "job", data: { id: "ftjob-1" } });
  expect(parseMessage("weather", "not even JSON")).toBeNull();
  expect(parseMessage(undefined, "{}")).toBeNull();
});
