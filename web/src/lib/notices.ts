/** What the browser tells of a job to somebody who looks elsewhere. */
import type { Job } from "../api/types";
import type { Alarm } from "./alarms";
import { humanize } from "./format";
import { isTerminal } from "./summary";

export interface Notice {
  /** Told once. */
  key: string;
  title: string;
  body: string;
}

/** What is to be told of the job as it is now: its alarms, and its end. */
export function noticesOf(job: Job, alarms: readonly Alarm[]): Notice[] {
  const name = job.user_provided_suffix ?? job.id;
  const raised = alarms
    .filter((alarm) => alarm.key !== "failed")
    .map((alarm) => ({ key: `${job.id} ${alarm.key}`, title: `${name} needs a look`, body: alarm.text }));
  if (!isTerminal(job)) return raised;
  const body = job.error?.message ?? job.fine_tuned_model ?? "";
  return [...raised, { key: `${job.id} ${job.status}`, title: `${name}: ${humanize(job.status)}`, body }];
}
