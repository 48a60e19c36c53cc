/** What the comparison of jobs asks the API. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { ApiError } from "../api/http";
import { jobsApi } from "../api/jobs";
import type { Job } from "../api/types";
import { isTerminal } from "../lib/summary";
import { keys } from "./queries";

const POINTS = 500;
const FAST_MS = 5_000;

/** These jobs, looked at again while they are not over. */
export function useJobsById(ids: readonly string[]) {
  return useQueries({
    queries: ids.map((id) => ({
      queryKey: keys.job(id),
      queryFn: () => jobsApi.get(id),
      refetchInterval: ({ state }: { state: { data: Job | undefined } }) =>
        state.data === undefined || isTerminal(state.data) ? (false as const) : FAST_MS,
    })),
    combine: (results) => ({
      jobs: results.flatMap((result) => result.data ?? []),
      isPending: results.some((result) => result.isPending),
      missing: ids.filter((_, i) => isNotFound(results[i]?.error)),
      error: results.find((result) => result.error && !isNotFound(result.error))?.error ?? null,
      refetch: () => results.forEach((result) => void result.refetch()),
    }),
  });
}

function isNotFound(error: Error | null | undefined): boolean {
  return error instanceof ApiError && error.status === 404;
}

/** Their curves with the rollouts that each had cost, by id; anew with every step that one of them makes. */
export function useComparedCurves(jobs: readonly Job[]) {
  return useQuery({
    queryKey: ["compared-curves", ...jobs.map((job) => [job.id, job.current_step, job.status])],
    queryFn: async () => {
      const curves = await jobsApi.curvesOf(
        jobs.map((job) => job.id),
        POINTS,
        true,
      );
      return new Map(curves.map((one) => [one.job, one]));
    },
    enabled: jobs.length > 0,
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: (previous) => previous,
  });
}
