/** What a job has come to in one line: where it began and where it is, as well as it is known. */
import type { Job } from "../api/types";
import { type JobCurves, difference, figures } from "./summary";

export interface Validation {
  /** Of the untrained policy. */
  from: number | null;
  to: number | null;
  /** The 95 % interval of `to`; null where nothing tells it. */
  interval: [number, number] | null;
  gain: number | null;
  /** Measured at the end where nothing was chosen, and not while it trained. */
  isFinal: boolean;
}

/** The final figures of a job that has them, else its first and last validation. */
export function validation(job: Pick<Job, "final_figures" | "best_step">, curves: JobCurves): Validation {
  const final = job.final_figures;
  if (final?.reward) {
    const { mean, low, high } = final.reward;
    const from = final.untrained?.mean ?? null;
    const gain = final.gain?.difference ?? difference(mean, from);
    return { from, to: mean, interval: [low, high], gain, isFinal: true };
  }
  const { baseline, bestStep, latestValid } = figures(job, curves);
  const from = baseline?.reward_mean ?? null;
  if (bestStep === null) return { from, to: null, interval: null, gain: null, isFinal: false };
  const last = curves.data.findLast((step) => step.record.valid?.reward_mean != null)?.record.valid;
  const [low, high] = [last?.reward_low ?? null, last?.reward_high ?? null];
  return {
    from,
    to: latestValid,
    interval: low === null || high === null ? null : [low, high],
    gain: difference(latestValid, from),
    isFinal: false,
  };
}
