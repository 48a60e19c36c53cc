/** What of a job should not wait until somebody happens to look. Pure: from the job and its curves. */
import type { Job, Step } from "../api/types";
import { percent, span } from "./format";
import { isTerminal, type JobCurves } from "./summary";

export interface Alarm {
  key: "held" | "paused" | "failed" | "excluded" | "fallen" | "stalled";
  /** In a sentence. */
  text: string;
  /** Where its evidence is. */
  href: string;
}

/** Of a step's training rollouts without a grade. */
const MANY_EXCLUDED = 0.25;
/** Times the usual time between two steps, and a minute at least; an evaluation may take its own on top. */
const STALLED_AFTER = 5;
const EVALUATED_AFTER = 2;
const STALLED_LEAST_S = 60;
const STEPS_NEEDED = 3;

/** The worst first; none for a job that goes on well, was stopped by its customer, or has succeeded. */
export function alarmsOf(job: Job, curves: JobCurves, now: number): Alarm[] {
  const page = `/jobs/${job.id}`;
  if (job.status === "failed")
    return [{ key: "failed", text: job.error?.message ?? "The job failed.", href: `${page}#events` }];
  if (isTerminal(job)) return [];
  return [
    held(job, now, page),
    paused(job, page),
    excluded(curves, page),
    fallen(curves, page),
    stalled(job, curves, now, page),
  ].filter((alarm) => alarm !== null);
}

function held(job: Job, now: number, page: string): Alarm | null {
  if (job.hold === null) return null;
  const text = `Waits for ${job.hold.endpoint} since ${span(now - job.hold.since)}.`;
  return { key: "held", text, href: `${page}#endpoints` };
}

/** By the platform: nothing goes on before somebody resumes it. */
function paused(job: Job, page: string): Alarm | null {
  if (job.status !== "paused" || job.pause_reason === null) return null;
  return { key: "paused", text: job.pause_reason.message, href: `${page}#events` };
}

function excluded(curves: JobCurves, page: string): Alarm | null {
  const last = curves.data.findLast((step) => step.record.train !== null);
  const train = last?.record.train;
  if (!last || !train || !hasManyExcluded(last)) return null;
  const text = `${percent(train.excluded / train.rollouts)} of step ${last.step}'s rollouts were excluded.`;
  return {
    key: "excluded",
    text,
    href: `${page}/rollouts?split=train&outcome=failed&from_step=${last.step}&to_step=${last.step}`,
  };
}

/** Whether too many of a step's training rollouts have no grade. */
export function hasManyExcluded({ record: { train } }: Step): boolean {
  return train !== null && train.rollouts > 0 && train.excluded / train.rollouts > MANY_EXCLUDED;
}

/** Whether a step's validation is worse than the untrained policy's, beyond what chance explains. */
export function hasFallen(untrained: Step | undefined, step: Step): boolean {
  const [before, after] = [untrained?.record.valid?.reward_low, step.record.valid?.reward_high];
  return untrained !== step && before != null && after != null && after < before;
}

function fallen(curves: JobCurves, page: string): Alarm | null {
  const measured = curves.data.filter((step) => step.record.valid !== null);
  const [first, last] = [measured[0], measured.at(-1)];
  if (first?.step !== 0 || last === undefined || !hasFallen(first, last)) return null;
  const text = `The validation reward of step ${last.step} is below the untrained policy's.`;
  return { key: "fallen", text, href: `${page}#curves` };
}

function stalled(job: Job, curves: JobCurves, now: number, page: string): Alarm | null {
  const steps = curves.data.slice(-10);
  const last = steps.at(-1);
  if (job.status !== "running" || job.hold !== null || last === undefined || steps.length < STEPS_NEEDED) return null;
  const usual = steps.slice(1).map((step, i) => perStep(steps[i] ?? step, step));
  const median = usual.toSorted((a, b) => a - b)[Math.floor(usual.length / 2)] ?? 0;
  const evaluation = Math.max(...curves.data.map((step) => step.record.timing.eval_s));
  // A job that was resumed begins anew where its trainer says so; an evaluation begins with a phase of its own, too.
  const since = Math.max(last.created_at, job.progress?.since ?? 0);
  const patience = Math.max(STALLED_LEAST_S, STALLED_AFTER * median + EVALUATED_AFTER * evaluation);
  if (now - since <= patience) return null;
  const text = `No step was done for ${span(now - since)}; one usually takes ${span(median)}.`;
  return { key: "stalled", text, href: `${page}#endpoints` };
}

/** Seconds of a step between two that are known: curves of a long job leave those in between out. */
function perStep(before: Step, after: Step): number {
  return (after.created_at - before.created_at) / Math.max(1, after.step - before.step);
}
