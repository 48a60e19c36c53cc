/** What the page of a new job asks the platform. */
import { useIsMutating, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ordersApi, type ToolCallTried } from "../api/orders";
import type { Estimate } from "../api/types";
import { parseExact } from "../api/exact_json";
import { standingOf } from "../lib/estimate_standing";
import { useOrderKey } from "./once";
import { keys } from "./queries";

/** Typed on, an order is asked about once, when the hand rests. */
const REST_MS = 400;
const CREATE = ["create-job"];

/** What the order comes to; null: it is not whole enough to ask. */
export function useEstimate(order: object | null) {
  const written = order === null ? null : JSON.stringify(order);
  const rested = useRested(written);
  // The order may hold secrets: a key of the cache holds it no longer than the page is open.
  const { data, error, refetch, isPlaceholderData } = useQuery({
    queryKey: ["estimate", rested],
    queryFn: () => ordersApi.estimate(JSON.parse(rested ?? "{}") as object),
    enabled: order !== null && rested !== null,
    placeholderData: (previous) => previous,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  // What was told last stays in sight while the order is being mended.
  const [last, setLast] = useState<Estimate | null>(null);
  if (data !== undefined && data !== last) setLast(data);
  const asked = { order: written, asked: rested, isPlaceholder: isPlaceholderData, hasData: data !== undefined };
  return { estimate: data ?? last, standing: standingOf({ ...asked, error }), error, refetch };
}

function useRested(value: string | null): string | null {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), REST_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}

/** `onCreated` also hears of a job whose page was left while it was being created. */
export function useCreateJob(onCreated: () => void) {
  const cache = useQueryClient();
  const keyOf = useOrderKey();
  return useMutation({
    mutationKey: CREATE,
    mutationFn: (order: object) => ordersApi.create(order, keyOf(order)),
    gcTime: 0,
    onSuccess: (job) => {
      cache.setQueryData(keys.job(job.id), job);
      void cache.invalidateQueries({ queryKey: keys.jobs });
      onCreated();
    },
  });
}

/** Whether an order is still under way whose page was left: until its reply comes, nobody knows whether it is made. */
export function useEarlierOrder(): boolean {
  const underWay = useIsMutating({ mutationKey: CREATE }) > 0;
  const [isAwaited, setAwaited] = useState(underWay);
  if (isAwaited && !underWay) setAwaited(false);
  return isAwaited;
}

/** One call of a tool: of a registered one by its id, else of what is typed. */
export function useToolRun() {
  return useMutation({
    mutationFn: ({ tool, tried }: { tool: Record<string, unknown>; tried: ToolCallTried }) =>
      typeof tool.id === "string"
        ? ordersApi.tryRegisteredTool(tool.id, parseExact(tried.arguments) as object, tried.item)
        : ordersApi.runTool(tool, tried),
    gcTime: 0,
  });
}

export function useGraderRun() {
  return useMutation({
    mutationFn: ({ grader, answer, item }: { grader: object; answer: string; item: object }) =>
      ordersApi.runGrader(grader, answer, item),
    gcTime: 0,
  });
}
