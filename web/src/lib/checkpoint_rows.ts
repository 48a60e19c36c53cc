/** The checkpoints table: what is kept, best first, against the baseline. */
import type { Checkpoint, Step } from "../api/types";
import { difference, evidence } from "./summary";

export interface CheckpointRow {
  id: string;
  step: number;
  model: string;
  createdAt: number;
  valid: number | null;
  /** 95 % interval of `valid`. */
  interval: [number, number] | null;
  train: number | null;
  /** Validation reward minus the baseline's. */
  gain: number | null;
  toolCalls: number | null;
  tokens: number | null;
  /** What the platform takes for the job's model. */
  isBest: boolean;
}

/** Rewards come from the steps where they are known, else from the checkpoint's own metrics. */
export function checkpointRows(
  checkpoints: readonly Checkpoint[],
  steps: readonly Step[],
  bestStep: number | null,
): CheckpointRow[] {
  const records = new Map(steps.map((step) => [step.step, step.record]));
  const baseline = records.get(0)?.valid?.reward_mean ?? null;
  const rows = checkpoints.map((checkpoint): CheckpointRow => {
    const record = records.get(checkpoint.step_number);
    const valid = record?.valid?.reward_mean ?? metric(checkpoint, "full_valid_mean_reward");
    const low = record?.valid?.reward_low ?? metric(checkpoint, "full_valid_mean_reward_low");
    const high = record?.valid?.reward_high ?? metric(checkpoint, "full_valid_mean_reward_high");
    const stats = record?.valid ?? record?.train ?? null;
    return {
      id: checkpoint.id,
      step: checkpoint.step_number,
      model: checkpoint.fine_tuned_model_checkpoint,
      createdAt: checkpoint.created_at,
      valid,
      interval: low === null || high === null ? null : [low, high],
      train: record?.train?.reward_mean ?? metric(checkpoint, "train_mean_reward"),
      gain: checkpoint.step_number === 0 ? null : difference(valid, baseline),
      toolCalls: stats?.tool_calls_mean ?? null,
      tokens: stats?.completion_tokens_mean ?? null,
      isBest: checkpoint.step_number === bestStep,
    };
  });
  const rank = ({ step, isBest, valid }: CheckpointRow) =>
    isBest ? 2 : valid === null ? 0 : evidence(records.get(step)?.valid);
  return rows.toSorted((a, b) => rank(b) - rank(a) || rewardOf(b) - rewardOf(a) || b.step - a.step);
}

function rewardOf(row: CheckpointRow): number {
  return row.valid ?? Number.NEGATIVE_INFINITY;
}

function metric(checkpoint: Checkpoint, name: string): number | null {
  const value = (checkpoint.metrics as Record<string, unknown>)[name];
  return typeof value === "number" ? value : null;
}
