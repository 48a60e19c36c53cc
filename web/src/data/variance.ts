/** How far the rewards of a job's rows spread at one step. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { MeasuredSplit } from "../api/types";
import { jobVariance } from "../api/variance";

export function useJobVariance(jobId: string, split: MeasuredSplit, step: number) {
  return useQuery({
    queryKey: ["job", jobId, "variance", split, step],
    queryFn: () => jobVariance(jobId, split, step),
    placeholderData: keepPreviousData,
  });
}
