/** What the endpoints page asks, and starting a rehearsal. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { endpointsApi } from "../api/endpoints";
import type { JobCalls } from "../api/types";
import { isPlayed } from "../lib/endpoints";

const REHEARSALS = ["rehearsals"];
const ENDPOINTS_MS = 10_000;
const REHEARSAL_MS = 2_000;

/** Over all jobs; looked at again, as calls come and go. */
export function useEndpointsOfJobs() {
  return useQuery({ queryKey: ["endpoints"], queryFn: endpointsApi.list, refetchInterval: ENDPOINTS_MS });
}

/** The last ones that went wrong; asked for once somebody looks. */
export function useFailedCalls({ job_id: job, health }: JobCalls) {
  const { stage, endpoint } = health;
  return useQuery({
    queryKey: ["failed_calls", job, stage, endpoint],
    queryFn: () => endpointsApi.failedCalls(job, health),
    refetchInterval: ENDPOINTS_MS,
  });
}

export function useRehearsals() {
  return useQuery({
    queryKey: REHEARSALS,
    queryFn: endpointsApi.rehearsals,
    refetchInterval: (query) => (query.state.data?.some(isPlayed) ? REHEARSAL_MS : false),
  });
}

export function useRehearsalActions() {
  const cache = useQueryClient();
  const onSettled = () => cache.invalidateQueries({ queryKey: REHEARSALS });
  return {
    rehearse: useMutation({ mutationFn: endpointsApi.rehearse, onSettled }),
    cancel: useMutation({ mutationFn: endpointsApi.cancelRehearsal, onSettled }),
  };
}
