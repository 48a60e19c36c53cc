/** The typed way to the platform's REST API. */
import type { Checkpoint, Job, JobEvent, Page, RolloutDetail, RolloutQuery, RolloutSummary, Step } from "./types";

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
  jobs(): Promise<Page<Job>>;
  job(id: string): Promise<Job>;
  steps(id: string): Promise<Step[]>;
  events(id: string, after: string | undefined): Promise<Page<JobEvent>>;
  checkpoints(id: string): Promise<Page<Checkpoint>>;
  rollouts(id: string, query: RolloutQuery, after: string | undefined, limit: number): Promise<Page<RolloutSummary>>;
  rollout(id: string, traceId: string): Promise<RolloutDetail>;
}

type Parameters = Record<string, string | number | undefined>;

/** A client that sends `apiKey` with every request. */
export function createClient(apiKey: string): Client {
  const get = <T>(path: string, parameters: Parameters = {}) => getJson<T>(apiKey, path + queryString(parameters));
  return {
    jobs: () => get("", { limit: 100 }),
    job: (id) => get(at(id)),
    steps: (id) =>
      allPages<Step>(
        (after) => get(at(id, "steps"), { after, limit: 1000 }),
        (step) => String(step.step),
      ),
    events: (id, after) => get(at(id, "events"), { after, limit: 100 }),
    checkpoints: (id) => get(at(id, "checkpoints"), { limit: 100 }),
    rollouts: (id, query, after, limit) => get(at(id, "rollouts"), { ...query, after, limit }),
    rollout: (id, traceId) => get(at(id, "rollouts", traceId)),
  };
}

export const JOBS_PATH = "/v1/fine_tuning/jobs";

/** Path below the jobs, each part escaped. */
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

async function getJson<T>(apiKey: string, path: string): Promise<T> {
  const headers = { Authorization: `Bearer ${apiKey}` };
  const response = await fetch(JOBS_PATH + path, { headers }).catch(() => {
    throw new ApiError(0, "The platform cannot be reached.");
  });
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
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
