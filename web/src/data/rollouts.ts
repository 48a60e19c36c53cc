/** What the pages of rollouts ask the API. */
import { keepPreviousData, queryOptions, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { allPages, type Page } from "../api/http";
import { jobsApi } from "../api/jobs";
import type { RolloutDetail, RolloutQuery, RolloutSummary } from "../api/types";
import { arrivalsIn } from "../lib/arrivals";
import { keys } from "./queries";

const PER_PAGE = 100;
/** On a page that no stream feeds. */
const HEAD_MS = 5_000;
const NONE = { count: 0, isMore: false };
const NEIGHBOURS_MS = 30_000;
const UNDER_WAY_MS = 3_000;
const TOKENS_PER_PAGE = 4000;

/** A list, as far as it was scrolled. Nothing moves in it by itself: see `useArrivals`. */
export function useRolloutList(jobId: string, query: RolloutQuery, perPage = PER_PAGE) {
  const cache = useQueryClient();
  return useInfiniteQuery({
    queryKey: keys.rollouts(jobId, query),
    queryFn: async ({ pageParam }) => {
      const page = await jobsApi.rollouts(jobId, query, pageParam, perPage);
      if (pageParam === undefined) cache.setQueryData(keys.rolloutHead(jobId, query), page);
      return page;
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    placeholderData: keepPreviousData,
    // What was scrolled past is not asked for again with every look at the page.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
}

interface ArrivalsOptions {
  list: ReturnType<typeof useRolloutList>;
  isActive: boolean;
  perPage?: number;
  /** A stream says when there may be news; else the head is looked at now and then. */
  isFed?: boolean;
}

/** What has come to the head of a list since it was loaded. An empty list takes it at once, any other when asked. */
export function useArrivals(jobId: string, query: RolloutQuery, options: ArrivalsOptions) {
  const { list, isActive, perPage = PER_PAGE, isFed = false } = options;
  const cache = useQueryClient();
  const isLoaded = list.data !== undefined && !list.isPlaceholderData;
  const { data: head } = useQuery({
    queryKey: keys.rolloutHead(jobId, query),
    queryFn: () => jobsApi.rollouts(jobId, query, undefined, perPage),
    enabled: isLoaded,
    // The list's own first page, until somebody has a reason to look again.
    staleTime: Number.POSITIVE_INFINITY,
    refetchInterval: isActive && !isFed ? HEAD_MS : false,
  });
  const [shows, setShows] = useState(0);
  const place = (page: Page<RolloutSummary>) =>
    cache.setQueryData(keys.rollouts(jobId, query), { pages: [page], pageParams: [undefined] });
  const isWhole = !list.hasNextPage;
  const pages = isLoaded ? list.data.pages : undefined;
  const found = useMemo(
    () =>
      pages && head
        ? arrivalsIn(
            head,
            pages.flatMap((page) => page.data),
            isWhole,
          )
        : NONE,
    [pages, head, isWhole],
  );
  const isFirst = pages?.[0]?.data.length === 0 && found.count > 0;
  useEffect(() => {
    if (isFirst && head) place(head);
  });
  useEffect(() => {
    if (!isActive) return;
    // The last ones come with the job's end, when nobody looks any more.
    return () => void cache.invalidateQueries({ queryKey: keys.rolloutHead(jobId, query) });
  }, [cache, isActive, jobId, query]);
  const show = () => {
    if (head) place(head);
    setShows((before) => before + 1);
  };
  return { arrivals: found, show, shows };
}

/** All rollouts of a row in a step: its group, or its groups where the step takes the row in two epochs. */
export function useGroup(id: string, row: RolloutQuery) {
  return useQuery({
    queryKey: keys.group(id, row),
    queryFn: () =>
      allPages<RolloutSummary>(
        (after) => jobsApi.rollouts(id, row, after, 1000),
        (rollout) => rollout.id,
      ),
    placeholderData: keepPreviousData,
  });
}

/** The newest rollouts of a step and split. */
export function useSameStep(id: string, query: RolloutQuery | null) {
  return useQuery({
    queryKey: keys.sameStep(id, query ?? {}),
    queryFn: () => jobsApi.rollouts(id, query ?? {}, undefined, 100),
    enabled: query !== null,
    placeholderData: keepPreviousData,
  });
}

/** Before and behind a rollout in the list that it was opened from; one that counts no more stands in none. */
export function useNeighbours(jobId: string, { id, status }: RolloutDetail, query: RolloutQuery) {
  return useQuery({
    queryKey: ["job", jobId, "neighbours", id, query],
    queryFn: () => jobsApi.neighbours(jobId, id, query),
    enabled: status === "ended",
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

export function useRollout(id: string, traceId: string) {
  return useQuery(rolloutQuery(id, traceId));
}

/** Asked for again until it has ended; after that it does not change. */
export function rolloutQuery(id: string, traceId: string) {
  return queryOptions({
    queryKey: keys.rollout(id, traceId),
    queryFn: () => jobsApi.rollout(id, traceId),
    staleTime: ({ state }) => (state.data?.status === "ended" ? Number.POSITIVE_INFINITY : 0),
    refetchInterval: ({ state }) => (state.data?.status === "in_progress" ? UNDER_WAY_MS : false),
  });
}

/** What the graders of a rollout were shown; it does not change. */
export function useGrading(id: string, traceId: string) {
  return useQuery({
    queryKey: keys.grading(id, traceId),
    queryFn: () => jobsApi.grading(id, traceId),
    staleTime: Number.POSITIVE_INFINITY,
  });
}
