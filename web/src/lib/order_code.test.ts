import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "./draft";
import { cliCode, sdkCode, variablesOf } from "./order_code";

/** A test of the API runs what stands here, and compares the jobs: see `test_code_of_an_order.py`. */
const DATA = join(import.meta.dirname, "..", "..", "..", "tests", "data");
const BASE = "http://127.0.0.1:8787/v1";
const order = JSON.parse(readFileSync(join(DATA, "new_job_order.json"), "utf8")) as JsonObject;

/** The code that is run there. With WRITE_CODE=1 it is written anew. */
function kept(name: string, code: string): string {
  const path = join(DATA, name);
  if (process.env.WRITE_CODE) writeFileSync(path, code);
  return readFileSync(path, "utf8");
}

describe("code", () => {
  test("is what the API's tests run", () => {
    expect(sdkCode(order, BASE)).toBe(kept("new_job_sdk.txt", sdkCode(order, BASE)));
    expect(cliCode(order, BASE)).toBe(kept("new_job_cli.txt", cliCode(order, BASE)));
  });

  test("holds no secret, and names the variables that it reads", () => {
    for (const code of [sdkCode(order, BASE), cliCode(order, BASE)]) expect(code).not.toContain("-secret");
    expect(variablesOf(order)).toEqual(["JUDGE_URL", "JUDGE_AUTHORIZATION", "SEARCH_X_KEY", "SEARCH_X_TEAM"]);
  });

  test("has a variable for each secret, also where two would be called alike", () => {
    const tool = (name: string) => ({ name, headers: { "X-Key": `${name}-secret` } });
    const twice = { method: { reinforcement: { tools: [tool("get-user"), tool("get_user")] } } };
    expect(variablesOf(twice)).toEqual(["GET_USER_X_KEY", "GET_USER_X_KEY_2"]);
    for (const code of [sdkCode(twice, BASE), cliCode(twice, BASE)]) expect(code).toContain("GET_USER_X_KEY_2");
  });

  test("of a body without secrets is read by the shell as it stands", () => {
    const code = cliCode({ model: "tiny", suffix: "costs $5" }, BASE);
    expect(code).toContain("<<'END'");
    expect(code).toContain('"costs $5"');
  });
});
