import { expect, test } from "vitest";
import type { Checkpoint } from "../api/types";
import { stats, step } from "../testing/records";
import { checkpointRows } from "./checkpoint_rows";

const checkpoint = (number: number, metrics = {}): Checkpoint => ({
  id: `c${number}`,
  object: "fine_tuning.job.checkpoint",
  created_at: 0,
  fine_tuning_job_id: "j",
  fine_tuned_model_checkpoint: `m${number}`,
  step_number: number,
  metrics,
});

test("checkpoints: best first, against the baseline", () => {
  const steps = [step(0, null, stats({ reward_mean: 0.25 })), step(4, stats(), stats({ reward_mean: 0.75 }))];
  const rows = checkpointRows(
    [checkpoint(0), checkpoint(4), checkpoint(8, { full_valid_mean_reward: 0.5 }), checkpoint(9)],
    steps,
    4,
  );
  expect(rows.map((row) => [row.step, row.valid, row.gain, row.isBest])).toEqual([
    [4, 0.75, 0.5, true],
    [8, 0.5, 0.25, false],
    [0, 0.25, null, false],
    [9, null, null, false],
  ]);
});

test("the best checkpoint is the platform's, and evaluations that lost most of their rollouts come last", () => {
  const at = (number: number, reward: number, excluded: number) =>
    step(number, stats(), stats({ reward_mean: reward, rollouts: 8, excluded }));
  const steps = [at(4, 0.4, 0), at(8, 0.6, 4), at(12, 0.95, 5)];
  const kept = steps.map((one) => checkpoint(one.step));
  const told = (best: number | null) => checkpointRows(kept, steps, best).map((row) => [row.step, row.isBest]);
  expect(told(8)).toEqual([
    [8, true],
    [4, false],
    [12, false],
  ]);
  // Without a validation the platform ranks by training rewards; before it has ranked, none is best.
  expect(told(4)[0]).toEqual([4, true]);
  expect(told(null).some(([, isBest]) => isBest)).toBe(false);
});
