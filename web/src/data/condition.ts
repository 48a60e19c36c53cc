/** Whether the platform is there, and what of its condition concerns every page. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { ApiError } from "../api/http";
import { condition } from "../api/session";
import type { Condition } from "../api/types";

export const CONDITION = ["condition"];
const EVERY_MS = 15_000;
const WHILE_GONE_MS = 3_000;

/** Asked again and again, as long as a page is open. What was missed while the platform was gone is asked for anew. */
export function useCondition() {
  const cache = useQueryClient();
  const { data, error, dataUpdatedAt, isFetching, refetch } = useQuery({
    queryKey: CONDITION,
    queryFn: (): Promise<Condition | null> => condition(),
    // A query that has nothing yet forgets its error with each try.
    initialData: null,
    initialDataUpdatedAt: 0,
    retry: false,
    staleTime: 0,
    refetchInterval: ({ state }) => (outageOf(state.error) ? WHILE_GONE_MS : EVERY_MS),
  });
  const outage = outageOf(error);
  const isGone = outage !== null;
  useEffect(() => {
    if (!isGone) return;
    return () => void cache.invalidateQueries({ predicate: (query) => query.queryKey[0] !== CONDITION[0] });
  }, [cache, isGone]);
  return { condition: data, outage, seenAt: dataUpdatedAt, isTrying: isFetching, retry: () => void refetch() };
}

/** The platform cannot be reached, or an error comes in its place: of a proxy before it, or without its database. */
function outageOf(error: Error | null): ApiError | null {
  return error instanceof ApiError && (error.status === 0 || error.status >= 500) ? error : null;
}
