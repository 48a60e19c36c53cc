/** Whether the platform is there, and what of its condition concerns every page. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { ApiError } from "../api/http";
import { condition } from "../api/session";

export const CONDITION = ["condition"];
const EVERY_MS = 15_000;
const WHILE_GONE_MS = 3_000;

/** Asked again and again, as long as a page is open. What was missed while the platform was gone is asked for anew. */
export function useCondition() {
  const cache = useQueryClient();
  const { data, error, dataUpdatedAt, isFetching, refetch } = useQuery({
    queryKey: CONDITION,
    queryFn: () => condition(),
    retry: false,
    staleTime: 0,
    refetchInterval: ({ state }) => (isUnreachable(state.error) ? WHILE_GONE_MS : EVERY_MS),
  });
  const isGone = isUnreachable(error);
  useEffect(() => {
    if (!isGone) return;
    return () => void cache.invalidateQueries({ predicate: (query) => query.queryKey[0] !== CONDITION[0] });
  }, [cache, isGone]);
  return { condition: data, isGone, seenAt: dataUpdatedAt, isTrying: isFetching, retry: () => void refetch() };
}

function isUnreachable(error: Error | null): boolean {
  return error instanceof ApiError && error.status === 0;
}
