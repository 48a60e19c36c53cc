/** The typed way to jobs and what belongs to them. */
import { allPages, at, call, callExact, get, getExact, getPositioned, type Page } from "./http";
import type {
  Action,
  Attempt,
  CallChange,
  Checkpoint,
  Curves,
  CurvesQuery,
  Diagnostics,
  EndpointHealth,
  EventType,
  Grading,
  Job,
  JobCurvesObject,
  JobEvent,
  JobQuery,
  PolicyChange,
  RolloutDetail,
  RolloutNeighbours,
  RolloutQuery,
  RolloutSummary,
  TokenPage,
} from "./types";

export const JOBS_PATH = "/v1/fine_tuning/jobs";
/** Seeds may have more digits than numbers of JavaScript. */
export const EXACT_IN_JOBS = ["seed"];
const CURVES_PATH = "/v1/dashboard/curves";

const job = (id: string, ...parts: string[]) => JOBS_PATH + at(id, ...parts);

export const jobsApi = {
  list: ({ search, statuses, sort, order }: JobQuery, after: string | undefined, limit: number) => {
    const asked = new URLSearchParams([...statuses.map((status) => ["status", status]), ["limit", String(limit)]]);
    for (const [name, value] of Object.entries({ search, sort, order, after })) if (value) asked.set(name, value);
    return get<Page<Job>>(`${JOBS_PATH}?${asked}`);
  },
  /** The curves of several jobs; `spent`: with the rollouts that each had cost. */
  curvesOf: async (ids: readonly string[], points: number, spent = false) => {
    const asked = new URLSearchParams([...ids.map((id) => ["job", id]), ["points", String(points)]]);
    if (spent) asked.set("spent", "true");
    return (await get<{ data: JobCurvesObject[] }>(`${CURVES_PATH}?${asked}`)).data;
  },
  get: (id: string) => getExact<Job>(EXACT_IN_JOBS, job(id)),
  remove: (id: string) => call<{ deleted: boolean }>("DELETE", job(id)),
  curves: (id: string, query: CurvesQuery) => getPositioned<Curves>(job(id, "curves"), { ...query }),
  /** At the steps that `curves` shows for the same query. */
  diagnostics: (id: string, query: CurvesQuery) => get<Diagnostics>(job(id, "diagnostics"), { ...query }),
  policyChange: (id: string, before: number, after: number) =>
    get<PolicyChange>(job(id, "policy_change"), { before, after }),
  callChange: (id: string, before: number, after: number) => get<CallChange>(job(id, "call_change"), { before, after }),
  events: (id: string, type: EventType | undefined, after: string | undefined) =>
    getPositioned<Page<JobEvent>>(job(id, "events"), { type, after, limit: 50 }),
  /** The newest events with one of these codes, however many others there are. */
  eventsOf: (id: string, codes: readonly string[]) =>
    get<Page<JobEvent>>(job(id, "events"), { code: codes, limit: 1000 }),
  checkpoints: (id: string) => get<Page<Checkpoint>>(job(id, "checkpoints"), { limit: 100 }),
  rollouts: (id: string, query: RolloutQuery, after: string | undefined, limit: number) =>
    get<Page<RolloutSummary>>(job(id, "rollouts"), { ...query, after, limit }),
  /** Before and behind a rollout in the list that a query gives. */
  neighbours: (id: string, traceId: string, query: RolloutQuery) =>
    get<RolloutNeighbours>(job(id, "rollouts", traceId, "neighbours"), { ...query }),
  rollout: (id: string, traceId: string) => get<RolloutDetail>(job(id, "rollouts", traceId)),
  /** What its graders were shown. */
  grading: (id: string, traceId: string) =>
    getExact<Grading>(["item", "sample"], job(id, "rollouts", traceId, "grading")),
  attempts: (id: string, traceId: string) =>
    allPages<Attempt>(
      (after) => get(job(id, "rollouts", traceId, "attempts"), { after, limit: 1000 }),
      (attempt) => attempt.id,
    ),
  tokens: (id: string, traceId: string, after: string | undefined, limit: number) =>
    get<TokenPage>(job(id, "rollouts", traceId, "tokens"), { after, limit }),
  endpoints: (id: string) => get<Page<EndpointHealth>>(job(id, "endpoints")),
  /** The job as it is then. */
  act: (id: string, action: Action) => callExact<Job>(EXACT_IN_JOBS, "POST", job(id, action)),
};
