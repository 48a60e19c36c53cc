/** What the pages ask of evals, and what they ask them to do. */
import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { evalsApi, type ItemQuery, type RunOrder } from "../api/evals";
import { allPages } from "../api/http";
import type { Change, EvalRun, ListedEval, OutputItem } from "../api/types";
import { isGoing } from "../lib/evals";
import { useOrderKey } from "./once";

const EVALS = ["evals"];
const FAST_MS = 2_000;
const SLOW_MS = 20_000;
const FIGURES_MS = 5_000;
const PER_PAGE = 50;
/** The most that the API gives at once. */
const LARGEST_PAGE = 100;

const runKey = (evalId: string, id: string) => [...EVALS, evalId, "run", id];
const comparisonsKey = (evalId: string) => [...EVALS, evalId, "compare"];
/** What is worked out from a run's items, which come in while it goes. */
const figuresInterval = (...runs: EvalRun[]) => (runs.some(isGoing) ? FIGURES_MS : false);

/** All, newest first; looked at again sooner while a latest run goes. */
export function useEvals() {
  return useInfiniteQuery({
    queryKey: [...EVALS, "list"],
    queryFn: ({ pageParam }) => evalsApi.list(pageParam, PER_PAGE),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    refetchInterval: (query) => (query.state.data?.pages.some((page) => page.data.some(goes)) ? FAST_MS : SLOW_MS),
  });
}

function goes({ latest_run: run }: ListedEval): boolean {
  return run !== null && isGoing(run);
}

export function useEval(id: string) {
  return useQuery({ queryKey: [...EVALS, id], queryFn: () => evalsApi.get(id) });
}

export function useCreateEval() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: evalsApi.create,
    // The order may hold secrets.
    gcTime: 0,
    onSuccess: (made) => {
      cache.setQueryData([...EVALS, made.id], made);
      void cache.invalidateQueries({ queryKey: [...EVALS, "list"] });
    },
  });
}

/** An eval's runs, newest first; looked at again sooner while one of them goes. */
export function useEvalRuns(evalId: string) {
  return useInfiniteQuery({
    queryKey: [...EVALS, evalId, "runs"],
    queryFn: ({ pageParam }) => evalsApi.runs(evalId, pageParam, PER_PAGE),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    refetchInterval: (query) => (query.state.data?.pages.some((page) => page.data.some(isGoing)) ? FAST_MS : SLOW_MS),
  });
}

/** Once it is over, all that is shown of its items is asked for again: the last came in since, and some may have lost a
 * verdict that does not hold. */
export function useEvalRun(evalId: string, id: string) {
  const cache = useQueryClient();
  const run = useQuery({
    queryKey: runKey(evalId, id),
    queryFn: () => evalsApi.run(evalId, id),
    refetchInterval: (query) => (query.state.data && isGoing(query.state.data) ? FAST_MS : false),
  });
  const isUnderWay = run.data !== undefined && isGoing(run.data);
  useEffect(() => {
    if (!isUnderWay) return;
    return () => {
      void cache.invalidateQueries({ queryKey: runKey(evalId, id) });
      void cache.invalidateQueries({ queryKey: comparisonsKey(evalId) });
    };
  }, [cache, evalId, id, isUnderWay]);
  return run;
}

/** Output items in their order, as far as they were looked at. Nothing moves in the list by itself: see `newItems`. */
export function useOutputItems(evalId: string, run: EvalRun, query: ItemQuery) {
  return useInfiniteQuery({
    queryKey: [...runKey(evalId, run.id), "items", query],
    queryFn: ({ pageParam }) => evalsApi.items(evalId, run.id, query, pageParam, PER_PAGE),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.has_more ? page.data.at(-1)?.id : undefined),
    placeholderData: keepPreviousData,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
}

/** All samples of one item of a run. */
export function useItemsOfRow(evalId: string, run: EvalRun, row: number) {
  return useQuery({
    queryKey: [...runKey(evalId, run.id), "row", row],
    queryFn: () =>
      allPages<OutputItem>(
        (after) => evalsApi.items(evalId, run.id, { datasource_item_id: row }, after, LARGEST_PAGE),
        (item) => item.id,
      ),
    refetchInterval: figuresInterval(run),
  });
}

export function useVariance(evalId: string, run: EvalRun, criterion: string | undefined) {
  return useQuery({
    queryKey: [...runKey(evalId, run.id), "variance", criterion],
    queryFn: () => evalsApi.variance(evalId, run.id, criterion),
    placeholderData: keepPreviousData,
    refetchInterval: figuresInterval(run),
    enabled: run.result_counts.total > 0,
  });
}

const comparedKey = (evalId: string, a: EvalRun, b: EvalRun) => [...comparisonsKey(evalId), a.id, b.id];

/** Of what both have come to. */
export function useComparison(evalId: string, a: EvalRun, b: EvalRun) {
  return useQuery({
    queryKey: comparedKey(evalId, a, b),
    queryFn: () => evalsApi.compare(evalId, a.id, b.id),
    placeholderData: keepPreviousData,
    refetchInterval: figuresInterval(a, b),
  });
}

/** As far as they were looked at; as with `useOutputItems`, nothing moves by itself. */
export function useComparedRows(evalId: string, a: EvalRun, b: EvalRun, change: Change | undefined) {
  return useInfiniteQuery({
    queryKey: [...comparedKey(evalId, a, b), "rows", change],
    queryFn: ({ pageParam }) => evalsApi.comparedRows(evalId, a.id, b.id, change, pageParam),
    initialPageParam: 0,
    getNextPageParam: (page, pages) =>
      page.has_more ? pages.reduce((rows, one) => rows + one.data.length, 0) : undefined,
    placeholderData: keepPreviousData,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
}

/** Of the eval that is named when it is asked for. */
export function useCancelRun() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ evalId, runId }: { evalId: string; runId: string }) => evalsApi.cancel(evalId, runId),
    onSettled: () => cache.invalidateQueries({ queryKey: EVALS }),
  });
}

/** Start, retry and delete; whatever is shown of the eval is asked for again. */
export function useEvalActions(evalId: string) {
  const cache = useQueryClient();
  const keyOf = useOrderKey();
  const onSettled = () => cache.invalidateQueries({ queryKey: [...EVALS, evalId] });
  return {
    start: useMutation({ mutationFn: (order: RunOrder) => evalsApi.start(evalId, order, keyOf(order)), onSettled }),
    retry: useMutation({ mutationFn: (runId: string) => evalsApi.retry(evalId, runId), onSettled }),
    removeRun: useMutation({
      mutationFn: (runId: string) => evalsApi.removeRun(evalId, runId),
      onSuccess: () => cache.invalidateQueries({ queryKey: [...EVALS, evalId, "runs"] }),
    }),
    remove: useMutation({
      mutationFn: () => evalsApi.remove(evalId),
      onSuccess: () => cache.invalidateQueries({ queryKey: [...EVALS, "list"] }),
    }),
  };
}
