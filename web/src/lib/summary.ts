/** What a job has come to, from its row and its steps. */
import type { Curves, Job, RolloutStats, Step } from "../api/types";
import { compact } from "./format";
import { latest, refinedBy } from "./series";

const TERMINAL: readonly string[] = ["succeeded", "failed", "cancelled"];

export function isTerminal(job: Pick<Job, "status">): boolean {
  return TERMINAL.includes(job.status);
}

export interface Progress {
  step: number;
  total: number;
  /** In [0, 1]. */
  share: number;
}

/** Null until the trainer has said how many steps there are. */
export function progress(job: Pick<Job, "current_step" | "total_steps">): Progress | null {
  const total = job.total_steps ?? null;
  if (total === null || total === 0) return null;
  const step = job.current_step ?? 0;
  return { step, total, share: Math.min(1, step / total) };
}

/** Seconds from start (else creation) to the end, or to `now` while it runs. */
export function elapsed(job: Pick<Job, "created_at" | "started_at" | "finished_at">, now: number): number {
  return Math.max(0, (job.finished_at ?? now) - (job.started_at ?? job.created_at));
}

export type JobCurves = Pick<Curves, "data" | "steps" | "rollouts" | "excluded">;
export const NO_CURVES: JobCurves = { data: [], steps: 0, rollouts: 0, excluded: 0 };

/** The curves with what is known of a part of it in more detail. */
export function refined(curves: JobCurves, detail: JobCurves | undefined): JobCurves {
  return detail === undefined ? curves : { ...curves, data: refinedBy(curves.data, detail.data) };
}

export interface Figures {
  /** Validation of step 0. */
  baseline: RolloutStats | null;
  /** Validation of the platform's best step; null while step 0 alone is evaluated. */
  best: RolloutStats | null;
  bestStep: number | null;
  /** Validation reward of the last evaluation. */
  latestValid: number | null;
  latestTrain: number | null;
  /** The step that it is of: not the last one where that has none. */
  latestTrainStep: number | null;
  rollouts: number;
  excluded: number;
}

/** Steps that the curves of a long job leave out are in the sums, and none of them is the best. */
export function figures(job: Pick<Job, "best_step">, curves: JobCurves): Figures {
  const steps = curves.data;
  const best = bestOf(steps, job.best_step);
  const trained = steps.findLast((step) => step.record.train?.reward_mean != null);
  return {
    baseline: steps.find((step) => step.step === 0)?.record.valid ?? null,
    best: best?.record.valid ?? null,
    bestStep: best?.step ?? null,
    latestValid: latest(steps.map((step) => step.record.valid?.reward_mean ?? null)),
    latestTrain: trained?.record.train?.reward_mean ?? null,
    latestTrainStep: trained?.step ?? null,
    rollouts: curves.rollouts,
    excluded: curves.excluded,
  };
}

/** `a - b` where both are known. */
export function difference(a: number | null | undefined, b: number | null | undefined): number | null {
  return a === null || a === undefined || b === null || b === undefined ? null : a - b;
}

export interface BesideBaseline {
  value: number | null;
  /** What `value` is, or is held against. */
  note: string;
  /** As a share of the baseline, where that means something. */
  change: number | null;
}

/** A figure of the best policy beside the baseline's; the baseline's alone until there is another. */
export function besideBaseline(now: number | null | undefined, before: number | null | undefined): BesideBaseline {
  if (now == null) return { value: before ?? null, note: "baseline", change: null };
  if (before == null) return { value: now, note: "no baseline", change: null };
  return { value: now, note: `baseline ${compact(before)}`, change: before === 0 ? null : now / before - 1 };
}

/** 1 for an evaluation that counts against others; 0 where it lost more than half of its rollouts. */
export function evidence(valid: RolloutStats | null | undefined): number {
  return valid && valid.excluded * 2 > valid.rollouts ? 0 : 1;
}

/** The platform's choice; until it is known, the evaluation after step 0 that ranks highest, of equal ones the last. */
function bestOf(steps: readonly Step[], chosen: number | null): Step | null {
  const evaluated = steps.filter((step) => step.record.valid?.reward_mean != null);
  const ranked = evaluated
    .filter((step) => step.step > 0)
    .toSorted((a, b) => evidence(a.record.valid) - evidence(b.record.valid) || rewardOf(a) - rewardOf(b));
  const highest = ranked.at(-1) ?? null;
  return highest && (evaluated.find((step) => step.step === chosen) ?? highest);
}

function rewardOf(step: Step): number {
  return step.record.valid?.reward_mean ?? Number.NEGATIVE_INFINITY;
}
