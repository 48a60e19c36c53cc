/** What is told of a job: page by page, by what it is about, and as it comes. */
import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { jobsApi } from "../api/jobs";
import type { EventType, JobEvent } from "../api/types";
import { lastKnown } from "../lib/fold";
import { keys } from "./queries";

/** Events of one type, or all. */
export function useEvents(id: string, type: EventType | undefined) {
  const cache = useQueryClient();
  return useInfiniteQuery({
    queryKey: keys.events(id, type),
    queryFn: ({ pageParam }) => jobsApi.events(id, type, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ data, has_more }) => {
      const last = has_more ? data.at(-1) : undefined;
      return last && lastKnown(last, cache.getQueryData<JobEvent[]>(keys.liveEvents(id)) ?? []).id;
    },
    placeholderData: keepPreviousData,
  });
}

/** Events with one of these codes; newer ones come with the stream. */
export function useEventsOf(id: string, codes: readonly string[]) {
  return useQuery({ queryKey: keys.eventsOf(id, codes), queryFn: () => jobsApi.eventsOf(id, codes) });
}

/** What the stream brought; folded in by `useLive`, and forgotten with the page: the stream stops with it. */
export function useLiveEvents(id: string) {
  return useQuery({ queryKey: keys.liveEvents(id), initialData: [] as JobEvent[], enabled: false, gcTime: 0 });
}
