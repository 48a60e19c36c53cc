/** Customers' endpoints over all jobs, in words. */
import type { CustomerEndpoints, EndpointLoad, EndpointOfJobs, JobCalls, Rehearsal } from "../api/types";
import { count, fixed, percent, plural, span } from "./format";

export interface Mark {
  label: string;
  tone: string;
}

/** Above it an endpoint fails rather than stumbles: the API's own bounds for registered tools. */
const FAILING = 0.5;
const DEGRADED = 0.05;
const REFUSING = 0.9;

const MARKS = {
  held: { label: "held", tone: "bad" },
  failing: { label: "failing", tone: "bad" },
  refusing: { label: "refuses calls", tone: "bad" },
  degraded: { label: "degraded", tone: "warn" },
  healthy: { label: "healthy", tone: "good" },
  idle: { label: "not called", tone: "" },
} satisfies Record<string, Mark>;
/** The worst first. */
const BY_TROUBLE: readonly Mark[] = Object.values(MARKS);

/** How an endpoint fares, over all jobs that call it. */
export function endpointMark(endpoint: EndpointOfJobs): Mark {
  const { attempts, errors, client_errors: refused } = endpoint;
  if (endpoint.is_held) return MARKS.held;
  if (attempts === 0) return MARKS.idle;
  if (errors / attempts > FAILING) return MARKS.failing;
  if (refused / attempts > REFUSING) return MARKS.refusing;
  return errors / attempts > DEGRADED ? MARKS.degraded : MARKS.healthy;
}

/** `12 (4 queued here)`: calls without an answer, and those of them that wait on our side. */
export function loadOf({ in_flight, queued }: Pick<JobCalls, "in_flight" | "queued">): string {
  if (in_flight === 0) return "none";
  return queued > 0 ? `${count(in_flight)} (${count(queued)} queued here)` : count(in_flight);
}

/** `24 at once`, with the order's own pace where it has one. */
export function limitOf({ limit, rate_limit: rate }: EndpointLoad): string {
  const many = limit === 0 ? "none" : `${count(limit)} at once`;
  return rate === null ? many : `${many}, ${perSecond(rate)} at most`;
}

/** `3.2 calls/s`, over the last minute. */
export function paceOf({ calls_per_s: rate, is_shared }: EndpointLoad): string {
  return `${perSecond(rate)}${is_shared ? " of all jobs" : ""}`;
}

const perSecond = (rate: number) => `${fixed(rate, rate < 10 ? 1 : 0)} calls/s`;

/** That it is down, and when something goes out again; empty where calls go out. Unix seconds. */
export function waitOf(load: EndpointLoad, now: number): string {
  const { down_since: since, waits_until: next } = load;
  const soon = next === null || next <= now ? "" : `in ${span(next - now)}`;
  if (since !== null) return `down for ${span(now - since)}${soon && `, next probe ${soon}`}`;
  return soon && `asked us to wait: next call ${soon}`;
}

/** That jobs are missing from the page; null where none are. */
export function leftOutNotice({ jobs, left_out: left }: CustomerEndpoints): string | null {
  if (left === 0) return null;
  return `Counted are the ${plural(jobs, "job")} that called last; ${plural(left, "further job")} of the last day ${left === 1 ? "is" : "are"} not.`;
}

export interface Host {
  name: string;
  /** Of the endpoint that fares worst. */
  mark: Mark;
  in_flight: number;
  queued: number;
  endpoints: EndpointOfJobs[];
}

/** Endpoints by the host that they share, in their order. */
export function byHost(endpoints: readonly EndpointOfJobs[]): Host[] {
  const hosts = new Map<string, Host>();
  for (const endpoint of endpoints) {
    const name = hostOf(endpoint);
    const mark = endpointMark(endpoint);
    const host = hosts.get(name) ?? { name, mark, in_flight: 0, queued: 0, endpoints: [] };
    host.mark = worse(host.mark, mark);
    host.queued += endpoint.queued;
    host.endpoints.push(endpoint);
    hosts.set(name, host);
  }
  return [...hosts.values()].map((host) => ({ ...host, in_flight: inFlightAt(host.endpoints) }));
}

function inFlightAt(endpoints: readonly EndpointOfJobs[]): number {
  const counted = new Map<string, number>();
  for (const endpoint of endpoints) {
    for (const calls of endpoint.jobs) {
      const name = countedAs(endpoint, calls);
      counted.set(name, Math.max(counted.get(name) ?? 0, calls.in_flight));
    }
  }
  return [...counted.values()].reduce((sum, calls) => sum + calls, 0);
}

/** What is told with one name is told several times. Where a grader's own calls are not known, each grader of a job is told
 * all rollouts that are graded; else each name of a grader is told all calls to its address. */
function countedAs({ stage, url }: EndpointOfJobs, { job_id, health, load }: JobCalls): string {
  if (stage !== "grader") return `${job_id} ${url} ${health.id}`;
  return load !== null && !load.is_shared ? `${job_id} ${url}` : job_id;
}

function worse(one: Mark, other: Mark): Mark {
  return BY_TROUBLE.indexOf(other) < BY_TROUBLE.indexOf(one) ? other : one;
}

/** Where it is, without the path. */
function hostOf(endpoint: EndpointOfJobs): string {
  try {
    return new URL(endpoint.url ?? "").host;
  } catch {
    return endpoint.names.join(", ");
  }
}

export function isPlayed(rehearsal: Rehearsal): boolean {
  return rehearsal.status === "queued" || rehearsal.status === "running";
}

const REHEARSAL_TONES: Record<string, string> = { running: "active", failed: "bad" };

export function rehearsalMark({ status, report }: Rehearsal): Mark {
  if (report && report.excluded_rollouts > 0) return { label: `${percent(report.excluded_share)} lost`, tone: "bad" };
  if (report) return { label: "borne", tone: "good" };
  return { label: status, tone: REHEARSAL_TONES[status] ?? "" };
}

/** What came of a rehearsal, in a line. */
export function rehearsalLine({ report, error, plan }: Rehearsal): string {
  if (error) return error.message;
  if (!report) return `a burst of ${count(plan.burst)} rollouts`;
  const [first] = report.advice;
  if (first) return first;
  return report.expected_step_s === null
    ? ""
    : `tools and grader take ${report.expected_step_s.toFixed(1)} s of a step`;
}
