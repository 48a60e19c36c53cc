import { expect, test } from "vitest";
import type { EndpointOfJobs, Rehearsal } from "../api/types";
import { byHost, endpointMark, loadOf, rehearsalLine, rehearsalMark } from "./endpoints";

const endpoint = (fields: Partial<EndpointOfJobs>) =>
  ({
    attempts: 100,
    errors: 0,
    client_errors: 0,
    is_held: false,
    names: ["search"],
    url: null,
    ...fields,
  }) as EndpointOfJobs;
const rehearsal = (fields: object) =>
  ({ status: "running", report: null, error: null, plan: { burst: 128 }, ...fields }) as unknown as Rehearsal;
const REPORT = { excluded_rollouts: 0, excluded_share: 0, expected_step_s: 2.25, advice: [] };

test("what fails, what refuses nearly every call and what a job waits for are told apart", () => {
  const labels = [{}, { errors: 6 }, { errors: 51 }, { client_errors: 91 }, { is_held: true }, { attempts: 0 }];
  expect(labels.map((fields) => endpointMark(endpoint(fields)).label)).toEqual([
    "healthy",
    "degraded",
    "failing",
    "refuses calls",
    "held",
    "not called",
  ]);
});

test("endpoints of one host stand together under the mark of the worst", () => {
  const [bad, other, good] = [
    endpoint({ url: "https://tools.example:8443/search?x=1", errors: 60, in_flight: 3, queued: 1 }),
    endpoint({ names: ["find"], in_flight: 0, queued: 0 }),
    endpoint({ url: "https://tools.example:8443/list", in_flight: 2, queued: 0 }),
  ];
  const [host, nameless] = byHost([bad, other, good]);
  expect(host).toMatchObject({ name: "tools.example:8443", mark: { label: "failing" }, in_flight: 5, queued: 1 });
  expect(host?.endpoints).toEqual([bad, good]);
  expect(nameless?.name).toBe("find");
});

test("what is in flight says how much of it waits here", () => {
  expect(loadOf({ in_flight: 12, queued: 4 })).toBe("12 (4 queued here)");
  expect(loadOf({ in_flight: 0, queued: 0 })).toBe("none");
});

test("a rehearsal says whether the burst was borne, and what to do", () => {
  expect(rehearsalMark(rehearsal({}))).toEqual({ label: "running", tone: "active" });
  expect(rehearsalMark(rehearsal({ status: "completed", report: REPORT })).label).toBe("borne");
  const lost = rehearsal({
    report: { ...REPORT, excluded_rollouts: 32, excluded_share: 0.25, advice: ["Allow 8 at once."] },
  });
  expect([rehearsalMark(lost).label, rehearsalLine(lost)]).toEqual(["25 % lost", "Allow 8 at once."]);
  expect(rehearsalLine(rehearsal({ report: REPORT }))).toBe("tools and grader take 2.3 s of a step");
  expect(rehearsalLine(rehearsal({ error: { message: "No such file" } }))).toBe("No such file");
  expect(rehearsalLine(rehearsal({}))).toBe("a burst of 128 rollouts");
});
