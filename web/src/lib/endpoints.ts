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

/** How an endpoint fares, over all jobs that call it. */
export function endpointMark(endpoint: EndpointOfJobs): Mark {
  const { attempts, errors, client_errors: refused } = endpoint;
  if (endpoint.is_held) return { label: "held", tone: "bad" };
  if (attempts === 0) return { label: "not called", tone: "" };
  if (errors / attempts > FAILING) return { label: "failing", tone: "bad" };
  if (refused / attempts > REFUSING) return { label: "refuses calls", tone: "bad" };
  return errors / attempts > DEGRADED ? { label: "degraded", tone: "warn" } : { label: "healthy", tone: "good" };
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

/** Endpoints by the host that they share, in their order: the host with the worst of them first. */
export function byHost(endpoints: readonly EndpointOfJobs[]): Host[] {
  const hosts = new Map<string, Host>();
  for (const endpoint of endpoints) {
    const name = hostOf(endpoint);
    // The first one is the one in the most trouble.
    const host = hosts.get(name) ?? { name, mark: endpointMark(endpoint), in_flight: 0, queued: 0, endpoints: [] };
    host.in_flight += endpoint.in_flight;
    host.queued += endpoint.queued;
    host.endpoints.push(endpoint);
    hosts.set(name, host);
  }
  return [...hosts.values()];
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
