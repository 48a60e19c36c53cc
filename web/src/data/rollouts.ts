/** What the pages of rollouts ask the API. */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { jobsApi } from "../api/jobs";
import type { RolloutQuery } from "../api/types";

const PER_PAGE = 100;
const NEIGHBOURS_MS = 30_000;
const TOKENS_PER_PAGE = 4000;

/** A list, as far as it was scrolled. */
export function useRolloutList(jobId: string, query: RolloutQuery) {
  return useInfiniteQuery({
    queryKey: ["job", jobId, "rollout-list", query],
    queryFn: ({ pageParam }) => jobsApi.rollouts(jobId, query, pageParam, PER_PAGE),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    placeholderData: keepPreviousData,
    // What was scrolled past is not asked for again with every look at the page.
    refetchOnWindowFocus: false,
  });
}

/** Before and behind a rollout in the list that it was opened from. */
export function useNeighbours(jobId: string, traceId: string, query: RolloutQuery) {
  return useQuery({
    queryKey: ["job", jobId, "neighbours", traceId, query],
    queryFn: () => jobsApi.neighbours(jobId, traceId, query),
    staleTime: NEIGHBOURS_MS,
  });
}

/** What a rollout was made of, as far as it was looked at. */
export function useTokens(jobId: string, traceId: string) {
  return useInfiniteQuery({
    queryKey: ["job", jobId, "tokens", traceId],
    queryFn: ({ pageParam }) => jobsApi.tokens(jobId, traceId, pageParam, TOKENS_PER_PAGE),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? (page.last_id ?? undefined) : undefined),
    refetchOnWindowFocus: false,
  });
}
