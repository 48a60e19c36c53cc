import { expect, test } from "vitest";
import { attempt } from "../testing/records";
import { answer, bytes, errorParts, lastTrouble, milliseconds, sorted, toneOf, windowWords } from "./ledger";

test("attempts belong to their calls; grades and callbacks stand apart", () => {
  const { ofModel, others } = sorted(
    [
      attempt(1, { call_id: "rollout.started" }),
      attempt(1, { call_id: "call_0", status: 503, code: "server_error" }),
      attempt(1, { call_id: "call_1" }),
      attempt(2, { call_id: "call_0" }),
      attempt(1, { stage: "grader", endpoint: "credit", call_id: "grade" }),
    ],
    new Set(["call_0", "call_1", "call_2"]),
  );
  expect([...ofModel].map(([id, tries]) => [id, tries.map((one) => one.attempt)])).toEqual([
    ["call_0", [1, 2]],
    ["call_1", [1]],
  ]);
  expect(others.map((call) => [call.endpoint, call.purpose])).toEqual([
    ["search", "told of the start"],
    ["credit", "grader"],
  ]);
});

test("an attempt says its status and what was wrong", () => {
  expect(answer({ status: 200, code: null })).toBe("200");
  expect(answer({ status: 503, code: "server_error" })).toBe("503 server error");
  expect(answer({ status: null, code: "connect_error" })).toBe("connect error");
  expect(answer({ status: null, code: null })).toBe("answered");
});

test("times and sizes have few digits", () => {
  expect([0.01, 0.4, 81.6, 999.4, 1240, 75_000].map(milliseconds)).toEqual([
    "0 ms",
    "0.4 ms",
    "82 ms",
    "999 ms",
    "1.24 s",
    "75 s",
  ]);
  expect([0, 312, 1234, 3_400_000].map(bytes)).toEqual(["0 B", "312 B", "1.2 kB", "3.4 MB"]);
});

test("the worst error comes first, in its own colour, and refused calls are told apart", () => {
  const parts = errorParts({
    errors_by_code: { timeout: { count: 1, share: 0.01 }, server_error: { count: 4, share: 0.04 } },
    client_errors_by_status: { "404": { count: 2, share: 0.02 } },
  });
  expect(parts.map((part) => part.label)).toEqual([
    "server error 4.0 % (4)",
    "answered 404 2.0 % (2)",
    "timeout 1.0 % (1)",
  ]);
  expect(parts.map((part) => part.color)).toEqual(["--c-code-1", "--c-refused", "--c-code-2"]);
});

test("the last trouble is the newer of a failure and a refusal", () => {
  const failure = attempt(1, { code: "timeout", status: null });
  const refused = attempt(2, { status: 404 });
  expect(lastTrouble({ last_failure: failure, last_client_error: refused })).toBe(refused);
  expect(lastTrouble({ last_failure: { ...failure, at: 999 }, last_client_error: refused })?.at).toBe(999);
  expect(lastTrouble({ last_failure: null, last_client_error: refused })).toBe(refused);
  expect(lastTrouble({ last_failure: null, last_client_error: null })).toBeNull();
  expect([failure, refused, attempt(3)].map(toneOf)).toEqual(["bad", "refused", "good"]);
});

test("the window is told in steps", () => {
  expect(windowWords([])).toBe("");
  expect(windowWords([{ from_step: 3, to_step: 12 }])).toBe("steps 3 to 12");
  expect(windowWords([{ from_step: 0, to_step: 0 }])).toBe("step 0");
});
