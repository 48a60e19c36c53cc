import { expect, test } from "vitest";
import type { CustomerEndpoints, EndpointLoad, EndpointOfJobs, JobCalls, Rehearsal } from "../api/types";
import {
  byHost,
  endpointMark,
  leftOutNotice,
  limitOf,
  loadOf,
  paceOf,
  rehearsalLine,
  rehearsalMark,
  waitOf,
} from "./endpoints";

const endpoint = (fields: Partial<EndpointOfJobs>) =>
  ({
    attempts: 100,
    errors: 0,
    client_errors: 0,
    is_held: false,
    names: ["search"],
    url: null,
    jobs: [],
    ...fields,
  }) as EndpointOfJobs;
const calls = (job_id: string, in_flight: number, load: object | null = null, id = "search") =>
  ({ job_id, in_flight, load, health: { id } }) as unknown as JobCalls;
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
    endpoint({ url: "https://tools.example:8443/search?x=1", errors: 60, queued: 1, jobs: [calls("a", 3)] }),
    endpoint({ names: ["find"], queued: 0 }),
    endpoint({ url: "https://tools.example:8443/list", queued: 0, jobs: [calls("a", 1), calls("b", 1)] }),
  ];
  const [host, nameless] = byHost([bad, other, good]);
  expect(host).toMatchObject({ name: "tools.example:8443", mark: { label: "failing" }, in_flight: 5, queued: 1 });
  expect(host?.endpoints).toEqual([bad, good]);
  expect(nameless?.name).toBe("find");
});

test("what graders of a host are told in common counts once per job", () => {
  const grader = (path: string, ...jobs: JobCalls[]) =>
    endpoint({ stage: "grader", url: `https://grade.example/${path}`, jobs });
  const inFlight = (...endpoints: EndpointOfJobs[]) => byHost(endpoints).map((host) => host.in_flight);
  // Whose calls nobody knows: each is told all rollouts that are graded.
  expect(inFlight(grader("a", calls("one", 7), calls("two", 2)), grader("b", calls("one", 7)))).toEqual([9]);
  expect(inFlight(grader("a", calls("one", 7, { is_shared: true })), grader("b", calls("one", 7)))).toEqual([7]);
  const own = { is_shared: false };
  expect(inFlight(grader("a", calls("one", 4, own)), grader("b", calls("one", 3, own)))).toEqual([7]);
  expect(inFlight(grader("a", calls("one", 4, own, "x"), calls("one", 4, own, "y")))).toEqual([4]);
  const tools = endpoint({ stage: "tool", url: "https://t/", jobs: [calls("one", 4), calls("one", 3, null, "find")] });
  expect(inFlight(tools)).toEqual([7]);
});

test("a host's mark is that of its worst endpoint, wherever it stands", () => {
  const at = (fields: Partial<EndpointOfJobs>) => endpoint({ url: "https://tools.example/", ...fields });
  const marks = (...endpoints: EndpointOfJobs[]) => byHost(endpoints).map((host) => host.mark.label);
  // The API puts the largest share of errors and refused calls first.
  expect(marks(at({ client_errors: 80 }), at({ errors: 60 }))).toEqual(["failing"]);
  expect(marks(at({ client_errors: 80 }), at({ errors: 6 }), at({ attempts: 0 }))).toEqual(["degraded"]);
  expect(marks(at({ errors: 100 }), at({ is_held: true }))).toEqual(["held"]);
  expect(marks(at({ attempts: 0 }), at({}))).toEqual(["healthy"]);
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

const load = (fields: Partial<EndpointLoad>) =>
  ({
    limit: 24,
    calls_per_s: 3.21,
    rate_limit: null,
    down_since: null,
    waits_until: null,
    is_shared: false,
    ...fields,
  }) as EndpointLoad;

test("a limit says how many at once, and how many a second where an order does", () => {
  expect(limitOf(load({}))).toBe("24 at once");
  expect(limitOf(load({ limit: 0 }))).toBe("none");
  expect(limitOf(load({ rate_limit: 20 }))).toBe("24 at once, 20 calls/s at most");
  expect([paceOf(load({})), paceOf(load({ calls_per_s: 120, is_shared: true }))]).toEqual([
    "3.2 calls/s",
    "120 calls/s of all jobs",
  ]);
});

test("who is down says since when and until when, and who asked us to wait says so", () => {
  expect(waitOf(load({}), 1000)).toBe("");
  expect(waitOf(load({ down_since: 940, waits_until: 1012 }), 1000)).toBe("down for 1 min 00 s, next probe in 12 s");
  expect(waitOf(load({ down_since: 990, waits_until: 999 }), 1000)).toBe("down for 10 s");
  expect(waitOf(load({ waits_until: 1030 }), 1000)).toBe("asked us to wait: next call in 30 s");
});

test("jobs that are not counted are told of", () => {
  const of = (jobs: number, left: number) => leftOutNotice({ jobs, left_out: left } as CustomerEndpoints);
  expect(of(3, 0)).toBeNull();
  expect(of(20, 1)).toBe("Counted are the 20 jobs that called last; 1 further job of the last day is not.");
  expect(of(20, 5)).toBe("Counted are the 20 jobs that called last; 5 further jobs of the last day are not.");
});
