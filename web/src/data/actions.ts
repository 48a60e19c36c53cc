/** What the pages ask the platform to do. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { filesApi } from "../api/files";
import { jobsApi } from "../api/jobs";
import type { Action } from "../api/types";
import { save } from "../lib/save";
import { CONDITION } from "./condition";
import { keys } from "./queries";

interface Asked {
  jobId: string;
  action: Action;
}

/** Pause, resume or cancel a job. */
export function useAct(jobId: string) {
  const { mutate, ...act } = useActOnAny();
  return { ...act, mutate: (action: Action) => mutate({ jobId, action }) };
}

/** The same of a job that is named when it is asked for. */
export function useActOnAny() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ jobId, action }: Asked) => jobsApi.act(jobId, action),
    onSuccess: (job) => {
      cache.setQueryData(keys.job(job.id), job);
      void cache.invalidateQueries({ queryKey: keys.jobs });
      void cache.invalidateQueries({ queryKey: CONDITION }); // It tells of jobs that stand still.
    },
    // The job is not what the page took it for.
    onError: (_, { jobId }) => void cache.invalidateQueries({ queryKey: keys.job(jobId), exact: true }),
  });
}

/** Delete a job that is over; nothing of it is asked for any more. */
export function useDeleteJob(jobId: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: () => jobsApi.remove(jobId),
    onSuccess: () => {
      cache.removeQueries({ queryKey: keys.job(jobId) });
      void cache.invalidateQueries({ queryKey: keys.jobs });
    },
  });
}

/** Save a file of the platform on the reader's disk; not a plain link, so that a refusal is told on the page. */
export function useDownload() {
  return useMutation({
    mutationFn: async ({ fileId, name }: { fileId: string; name: string }) => {
      save(await filesApi.content(fileId), name);
    },
  });
}
