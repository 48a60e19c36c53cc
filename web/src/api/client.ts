/** The typed way to the platform's REST API. */
import type {
  Action,
  Attempt,
  Checkpoint,
  Curves,
  CurvesQuery,
  EndpointHealth,
  Grading,
  EventType,
  Job,
  JobCurvesObject,
  JobEvent,
  Page,
  Positioned,
  RolloutDetail,
  RolloutQuery,
  RolloutSummary,
} from "./types";

/** The API answered with an error, or could not be reached (`status` 0). */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface Client {
  jobs(after: string | undefined, limit: number): Promise<Page<Job>>;
  /** Of several jobs, for small pictures of them. */
  curvesOf(ids: readonly string[], points: number): Promise<JobCurvesObject[]>;
  job(id: string): Promise<Job>;
  curves(id: string, query: CurvesQuery): Promise<Curves & Positioned>;
  events(id: string, type: EventType | undefined, after: string | undefined): Promise<Page<JobEvent> & Positioned>;
  checkpoints(id: string): Promise<Page<Checkpoint>>;
  rollouts(id: string, query: RolloutQuery, after: string | undefined, limit: number): Promise<Page<RolloutSummary>>;
  rollout(id: string, traceId: string): Promise<RolloutDetail>;
  /** What its graders were shown. */
  grading(id: string, traceId: string): Promise<Grading>;
  attempts(id: string, traceId: string): Promise<Attempt[]>;
  endpoints(id: string): Promise<Page<EndpointHealth>>;
  /** The job as it is then. */
  act(id: string, action: Action): Promise<Job>;
  /** A file's bytes. */
  file(id: string): Promise<Blob>;
}

type Parameters = Record<string, string | number | undefined>;

const get = <T>(path: string, parameters: Parameters = {}) =>
  json<T>(send("GET", JOBS_PATH + path + queryString(parameters)));
const getPositioned = <T>(path: string, parameters: Parameters) =>
  positioned<T>(send("GET", JOBS_PATH + path + queryString(parameters)));

/** Calls the platform that the page comes from; the browser adds its session to every request. */
export const client: Client = {
  jobs: (after, limit) => get("", { after, limit }),
  curvesOf: async (ids, points) => {
    const asked = new URLSearchParams([...ids.map((id) => ["job", id]), ["points", String(points)]]);
    return (await json<{ data: JobCurvesObject[] }>(send("GET", `${CURVES_PATH}?${asked}`))).data;
  },
  job: (id) => get(at(id)),
  curves: (id, query) => getPositioned(at(id, "curves"), { ...query }),
  events: (id, type, after) => getPositioned(at(id, "events"), { type, after, limit: 50 }),
  checkpoints: (id) => get(at(id, "checkpoints"), { limit: 100 }),
  rollouts: (id, query, after, limit) => get(at(id, "rollouts"), { ...query, after, limit }),
  rollout: (id, traceId) => get(at(id, "rollouts", traceId)),
  grading: (id, traceId) => get(at(id, "rollouts", traceId, "grading")),
  attempts: (id, traceId) =>
    allPages<Attempt>(
      (after) => get(at(id, "rollouts", traceId, "attempts"), { after, limit: 1000 }),
      (attempt) => attempt.id,
    ),
  endpoints: (id) => get(at(id, "endpoints")),
  act: (id, action) => json(send("POST", JOBS_PATH + at(id, action))),
  file: async (id) => (await send("GET", FILES_PATH + at(id, "content"))).blob(),
};

export const JOBS_PATH = "/v1/fine_tuning/jobs";
export const UNREACHABLE = "The platform cannot be reached.";
const FILES_PATH = "/v1/files";
const CURVES_PATH = "/v1/dashboard/curves";

/** Path below a collection, each part escaped. */
export function at(...parts: string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

/** `?a=1&b=2`, without what is undefined; empty when nothing is left. */
export function queryString(parameters: Parameters): string {
  const given = Object.entries(parameters).filter(
    (entry): entry is [string, string | number] => entry[1] !== undefined,
  );
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

/** The error's message in the API's envelope, or what the status says. */
export async function errorOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  const envelope = (body as { error?: { message?: unknown } } | null)?.error;
  const message =
    typeof envelope?.message === "string" ? envelope.message : `The API answered HTTP ${response.status}.`;
  return new ApiError(response.status, message);
}

async function send(method: "GET" | "POST", path: string): Promise<Response> {
  const response = await fetch(path, { method }).catch(() => {
    throw new ApiError(0, UNREACHABLE);
  });
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function json<T>(response: Promise<Response>): Promise<T> {
  return (await (await response).json()) as T;
}

async function positioned<T>(response: Promise<Response>): Promise<T & Positioned> {
  const { headers } = await response;
  return { ...(await json<T>(response)), lastEventId: headers.get("last-event-id") ?? "0" };
}

async function allPages<T>(page: (after: string | undefined) => Promise<Page<T>>, cursor: (item: T) => string) {
  const items: T[] = [];
  for (let after: string | undefined; ;) {
    const { data, has_more } = await page(after);
    items.push(...data);
    const last = data.at(-1);
    if (!has_more || last === undefined) return items;
    after = cursor(last);
  }
}
