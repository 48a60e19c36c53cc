/** What the page of a new job asks the platform. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ordersApi, type ToolCallTried } from "../api/orders";
import type { Estimate } from "../api/types";
import { parseExact } from "../api/exact_json";
import { useOrderKey } from "./once";
import { keys } from "./queries";

/** Typed on, an order is asked about once, when the hand rests. */
const REST_MS = 400;

/** What the order comes to; null: it is not whole enough to ask. */
export function useEstimate(order: object | null) {
  const rested = useRested(order === null ? null : JSON.stringify(order));
  // The order may hold secrets: a key of the cache holds it no longer than the page is open.
  const { data, error, refetch } = useQuery({
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
  return { estimate: data ?? last, error, refetch };
}

function useRested(value: string | null): string | null {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), REST_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}

export function useCreateJob() {
  const cache = useQueryClient();
  const keyOf = useOrderKey();
  return useMutation({
    mutationFn: (order: object) => ordersApi.create(order, keyOf(order)),
    gcTime: 0,
    onSuccess: (job) => {
      cache.setQueryData(keys.job(job.id), job);
      void cache.invalidateQueries({ queryKey: keys.jobs });
    },
  });
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
