/** Records for the tests, with only what a test is about spelled out. */
import type { Baseline, Attempt, Job, JobEvent, RolloutStats, RolloutSummary, Step } from "../api/types";
import type { JobCurves } from "../lib/summary";

export function stats(given: Partial<RolloutStats> = {}): RolloutStats {
  return {
    rollouts: 8,
    excluded: 0,
    failures_by_code: {},
    reward_mean: 0.5,
    reward_mean_if_failures_were_zero: given.reward_mean === undefined ? 0.5 : given.reward_mean,
    grader_scores_mean: {},
    completion_tokens_mean: 100,
    tool_calls_mean: 2,
    tools: [],
    ...given,
  };
}

export function tool(name: string, callsPerRollout: number): RolloutStats["tools"][number] {
  return { name, calls_per_rollout_mean: callsPerRollout };
}

export function step(
  number: number,
  train: RolloutStats | null,
  valid: RolloutStats | null,
  createdAt = number * 10,
): Step {
  return {
    step: number,
    created_at: createdAt,
    record: {
      train,
      valid,
      timing: { sampling_s: 2, tools_s: 1, grading_s: 0, training_s: 4, eval_s: valid ? 3 : 0, full_step_s: 10 },
    },
  };
}

/** Curves of which no step is left out. */
export function curves(data: Step[]): JobCurves {
  const all = data.flatMap((one) => [one.record.train, one.record.valid]);
  return {
    data,
    steps: data.length,
    rollouts: all.reduce((sum, one) => sum + (one?.rollouts ?? 0), 0),
    excluded: all.reduce((sum, one) => sum + (one?.excluded ?? 0), 0),
  };
}

export function event(id: string, createdAt: number): JobEvent {
  return {
    id,
    object: "fine_tuning.job.event",
    created_at: createdAt,
    level: "info",
    message: id,
    data: null,
    type: "message",
  };
}

export function job(given: Partial<Job> = {}): Job {
  return {
    id: "ftjob-1",
    object: "fine_tuning.job",
    created_at: 100,
    started_at: 110,
    finished_at: null,
    estimated_finish: null,
    model: "starter",
    fine_tuned_model: null,
    organization_id: "local",
    status: "running",
    training_file: "file-1",
    validation_file: null,
    result_files: [],
    trained_tokens: null,
    seed: 1,
    method: {},
    metadata: null,
    integrations: null,
    error: null,
    user_provided_suffix: null,
    resolved_hyperparameters: null,
    current_step: null,
    total_steps: null,
    best_step: null,
    is_cancel_requested: false,
    is_pause_requested: false,
    hold: null,
    usage_metrics: null,
    eval_id: null,
    shared_with_openai: false,
    waits_for: null,
    progress: null,
    pause_reason: null,
    max_importance_gap: 0.2,
    test_file: null,
    final_figures: null,
    baselines: null,
    ...given,
  };
}

export function baseline(given: Partial<Baseline> = {}): Baseline {
  return {
    model: "acme/small",
    reward: null,
    rollouts: 30,
    graded: 30,
    failures: {},
    error: null,
    prompt_tokens: 0,
    cached_tokens: 0,
    completion_tokens: 0,
    turns_without_usage: 0,
    tool_calls: 0,
    cost: null,
    duration_s: 1,
    ...given,
  };
}

export function summary(id: string, given: Partial<RolloutSummary> = {}): RolloutSummary {
  return {
    id,
    object: "fine_tuning.job.rollout",
    split: "train",
    step: 1,
    epoch: 0,
    row_index: 0,
    group_index: 0,
    attempt: 0,
    policy_version: 0,
    reward: 1,
    failure_code: null,
    failure_stage: null,
    stop_reason: "completed",
    tool_calls: 1,
    completion_tokens: 10,
    duration_s: 1,
    created_at: 0,
    prompt: null,
    answer: null,
    ...given,
  };
}

export function attempt(number: number, given: Partial<Attempt> = {}): Attempt {
  return {
    id: String(number),
    object: "fine_tuning.job.attempt",
    at: 100 + number,
    step: 1,
    trace_id: "trace_1",
    stage: "tool",
    endpoint: "search",
    call_id: "call_0",
    attempt: number,
    code: null,
    status: 200,
    latency_ms: 80,
    queued_ms: 0,
    sent_bytes: 300,
    received_bytes: 1200,
    ...given,
  };
}
