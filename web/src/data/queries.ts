/** What the pages ask the API, and how fresh it has to be. */
import { keepPreviousData, queryOptions, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { jobsApi } from "../api/jobs";
import { platformNow } from "../api/platform_time";
import type { EventType, Job, JobQuery, RolloutDetail, RolloutQuery } from "../api/types";
import { mayHaveMoreAttempts } from "../lib/outcome";
import type { Zoom } from "../lib/plot";
import { isTerminal } from "../lib/summary";

export const keys = {
  jobs: ["jobs"],
  job: (id: string) => ["job", id],
  curves: (id: string) => ["job", id, "curves"],
  detail: (id: string, zoom: Zoom | null) => ["job", id, "curves", zoom],
  allDiagnostics: (id: string) => ["job", id, "diagnostics"],
  diagnostics: (id: string, zoom: Zoom | null) => ["job", id, "diagnostics", zoom],
  policyChange: (id: string, before: number, after: number) => ["job", id, "policy-change", before, after],
  callChange: (id: string, before: number, after: number) => ["job", id, "call-change", before, after],
  allEvents: (id: string) => ["job", id, "events"],
  events: (id: string, type?: EventType) => ["job", id, "events", type],
  eventsOf: (id: string, codes: readonly string[]) => ["job", id, "events-of", ...codes],
  /** Events that came with the stream, newest first. */
  liveEvents: (id: string) => ["job", id, "live-events"],
  checkpoints: (id: string) => ["job", id, "checkpoints"],
  allRolloutHeads: (id: string) => ["job", id, "rollout-head"],
  rolloutHead: (id: string, query: RolloutQuery) => ["job", id, "rollout-head", query],
  rollouts: (id: string, query: RolloutQuery) => ["job", id, "rollouts", query],
  rollout: (id: string, traceId: string) => ["job", id, "rollout", traceId],
  grading: (id: string, traceId: string) => ["job", id, "grading", traceId],
  attempts: (id: string, traceId: string) => ["job", id, "attempts", traceId],
  endpoints: (id: string) => ["job", id, "endpoints"],
  group: (id: string, row: RolloutQuery) => ["job", id, "group", row],
  sameStep: (id: string, query: RolloutQuery) => ["job", id, "same-step", query],
};

/** A chart is hardly wider than so many points; the peaks are among them. */
const POINTS = 500;
const SMALL_POINTS = 100;
/** As many rows as curves are asked for at once. */
const JOBS_PER_PAGE = 50;
const FOUND = 8;
const FAST_MS = 3_000;
const SLOW_MS = 20_000;
const FOLLOWED_MS = 5_000;
/** Between two steps; a finished step asks by itself. */
const ENDPOINTS_MS = 10_000;

/** The list, polled; faster while something runs. */
export function useJobs(wanted: JobQuery) {
  return useInfiniteQuery({
    queryKey: [...keys.jobs, wanted],
    queryFn: ({ pageParam }) => jobsApi.list(wanted, pageParam, JOBS_PER_PAGE),
    placeholderData: keepPreviousData,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    refetchInterval: (query) =>
      query.state.data?.pages.some((page) => page.data.some((job) => !isTerminal(job))) ? FAST_MS : SLOW_MS,
  });
}

/** A few jobs with these words, the newest first; for a field in which somebody types. */
export function useFoundJobs(search: string) {
  return useQuery({
    queryKey: ["found-jobs", search],
    queryFn: () => jobsApi.list({ search, statuses: [], sort: "created", order: "desc" }, undefined, FOUND),
    placeholderData: keepPreviousData,
  });
}

/** The curves of the jobs of a page, by id: one request, with every step that one of them makes. */
export function useCurvesOf(jobs: readonly Job[]) {
  const begun = jobs.filter((job) => job.current_step !== null);
  return useQuery({
    queryKey: ["list-curves", ...begun.map((job) => [job.id, job.current_step, job.status])],
    queryFn: async () => {
      const curves = await jobsApi.curvesOf(
        begun.map((job) => job.id),
        SMALL_POINTS,
      );
      return new Map(curves.map((one) => [one.job, one.curves]));
    },
    enabled: begun.length > 0,
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
  });
}

export function useJob(id: string) {
  return useQuery(jobQuery(id));
}

export function jobQuery(id: string) {
  return queryOptions({ queryKey: keys.job(id), queryFn: () => jobsApi.get(id) });
}

/** Asks anew for everything of a job that is shown. */
export function useReload(id: string) {
  const cache = useQueryClient();
  return () => void cache.refetchQueries({ queryKey: keys.job(id), type: "active" });
}

/** The job that a page may be about. */
export function useKnownJob(id: string | null) {
  return useQuery({ queryKey: keys.job(id ?? ""), queryFn: () => jobsApi.get(id ?? ""), enabled: id !== null });
}

/** A job on a page that no stream feeds; asked for again while it is not over. */
export function useFollowedJob(id: string) {
  return useQuery({
    queryKey: keys.job(id),
    queryFn: () => jobsApi.get(id),
    refetchInterval: ({ state }) => (state.data && isTerminal(state.data) ? false : FOLLOWED_MS),
  });
}

export function useCurves(id: string) {
  return useQuery(curvesQuery(id));
}

export function curvesQuery(id: string) {
  return queryOptions({ queryKey: keys.curves(id), queryFn: () => jobsApi.curves(id, { points: POINTS }) });
}

/** The steps of a part of the curves, as many as can be drawn; asked for where the whole leaves some out. */
export function useDetail(id: string, zoom: Zoom | null, isWanted: boolean) {
  return useQuery({
    queryKey: keys.detail(id, zoom),
    queryFn: () => jobsApi.curves(id, { points: POINTS, ...(zoom && { from_step: zoom.from, to_step: zoom.to }) }),
    enabled: isWanted && zoom !== null,
    placeholderData: (previous) => (zoom === null ? undefined : previous),
  });
}

/** How training goes, over all steps; asked for while somebody looks. */
export function useDiagnostics(id: string, isWanted: boolean) {
  return useQuery({
    queryKey: keys.diagnostics(id, null),
    queryFn: () => jobsApi.diagnostics(id, { points: POINTS }),
    enabled: isWanted,
  });
}

/** The same of the steps that are looked at. */
export function useDiagnosticsDetail(id: string, zoom: Zoom | null, isWanted: boolean) {
  return useQuery({
    queryKey: keys.diagnostics(id, zoom),
    queryFn: () => jobsApi.diagnostics(id, { points: POINTS, ...(zoom && { from_step: zoom.from, to_step: zoom.to }) }),
    enabled: isWanted && zoom !== null,
    placeholderData: (previous) => (zoom === null ? undefined : previous),
  });
}

/** Two policies on the validation rows. */
export function usePolicyChange(id: string, before: number, after: number, isWanted: boolean) {
  return useQuery({
    queryKey: keys.policyChange(id, before, after),
    queryFn: () => jobsApi.policyChange(id, before, after),
    enabled: isWanted,
    placeholderData: keepPreviousData,
  });
}

/** The calls of two policies on the validation rows. */
export function useCallChange(id: string, before: number, after: number) {
  return useQuery({
    queryKey: keys.callChange(id, before, after),
    queryFn: () => jobsApi.callChange(id, before, after),
    placeholderData: keepPreviousData,
  });
}

export function useCheckpoints(id: string) {
  return useQuery({ queryKey: keys.checkpoints(id), queryFn: () => jobsApi.checkpoints(id) });
}

/** Every attempt of every call of a rollout. Told of the rollout, it looks again while further ones may come. */
export function useAttempts(id: string, traceId: string, rollout?: RolloutDetail) {
  return useQuery({
    queryKey: keys.attempts(id, traceId),
    queryFn: () => jobsApi.attempts(id, traceId),
    refetchInterval: () => (rollout && mayHaveMoreAttempts(rollout, platformNow()) ? FAST_MS : false),
  });
}

/** The health of a job's endpoints; looked at again while the job is active, as attempts come between steps. */
export function useEndpoints(id: string, isActive: boolean) {
  return useQuery({
    queryKey: keys.endpoints(id),
    queryFn: () => jobsApi.endpoints(id),
    refetchInterval: isActive ? ENDPOINTS_MS : false,
  });
}
