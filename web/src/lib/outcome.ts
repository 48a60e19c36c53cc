/** What became of a rollout: a grade, or the failure that took its place. */
import type { EndedRollout, Failure, Grade, RolloutDetail, RolloutRecord, RolloutSummary } from "../api/types";

export const SPLIT_WORDS: Record<RolloutSummary["split"], string> = {
  train: "train",
  valid: "validation",
  test: "test",
};

/** Whether its end was told: one that is under way, or was cut off, has none. */
export function hasEnded(rollout: RolloutDetail): rollout is EndedRollout {
  return rollout.record !== null;
}

/** Attempts are stored a little after the rollout's end; clocks may be some seconds apart. */
const ATTEMPTS_LATE_S = 15;

/** Whether attempts may come in still: the last of a rollout come after its end. `now`: Unix seconds. */
export function mayHaveMoreAttempts(
  { status, created_at }: Pick<RolloutDetail, "status" | "created_at">,
  now: number,
): boolean {
  return status === "in_progress" || (status === "ended" && now - created_at < ATTEMPTS_LATE_S);
}

/** Why these rollouts have no conversation to show; null of none. */
export function unendedWords(rollouts: readonly Pick<RolloutDetail, "id" | "status">[]): string | null {
  const told = rollouts.map(({ id, status }) =>
    status === "abandoned"
      ? `${id} was abandoned: it was cut off, or its step was done again.`
      : `${id} has not ended yet.`,
  );
  return told.length === 0 ? null : told.join(" ");
}

export function isFailure(outcome: RolloutRecord["outcome"]): outcome is Failure {
  return "stage" in outcome;
}

/** Each grader's raw number, the whole reward left out when it says the same. */
export function scoresOf(grade: Grade): [string, number][] {
  const scores = Object.entries(grade.scores ?? {});
  const only = scores[0];
  return scores.length === 1 && only?.[1] === grade.reward && only[0] === grade.grader ? [] : scores;
}

const PLATFORM_CODES: readonly string[] = ["cancelled", "sampler_error", "platform_deadline", "internal_error"];

/** What is wrong with a grader that has no endpoint. */
const GRADER_CODES: readonly string[] = ["grader_error", "invalid_variable"];
/** A score of the order's own code or formula. */
const SCORE_OUT_OF_BOUNDS = "score_out_of_bounds";

/** Whose doing it was, in words. */
export function blame(failure: Failure): string {
  if (PLATFORM_CODES.includes(failure.code)) return "The platform's fault";
  // Nobody was asked: the row, or what was said to it, is too large.
  if (failure.code === "oversize_request") return "The order's fault";
  if (GRADER_CODES.includes(failure.code) || failure.detail === SCORE_OUT_OF_BOUNDS) return "The grader's fault";
  return failure.stage === "grader" ? "The grader endpoint's fault" : "The tool endpoint's fault";
}

const STOP_WORDS: Record<string, string> = {
  completed: "answered",
  tool_calls: "ended with calls",
  max_turns: "out of turns",
  max_tool_calls: "out of tool calls",
  max_tokens: "out of tokens",
  context_full: "context full",
};

/** Why a rollout ended, in words. */
export function endWords(summary: Pick<RolloutSummary, "stop_reason" | "failure_code">): string {
  if (summary.failure_code !== null) return summary.failure_code.replaceAll("_", " ");
  return summary.stop_reason === null ? "broke off" : (STOP_WORDS[summary.stop_reason] ?? summary.stop_reason);
}

/** The rollouts of one group in order: by position, then attempt. */
export function inOrder(rollouts: readonly RolloutSummary[]): RolloutSummary[] {
  return [...rollouts].toSorted(
    (a, b) => a.row_index - b.row_index || a.group_index - b.group_index || a.attempt - b.attempt,
  );
}

/** Where in [0, 1] a reward lies, for a bar; rewards outside are cut. */
export function barShare(reward: number): number {
  return Math.min(1, Math.max(0, reward));
}

/** Seconds of each part of a rollout; what is left over is waiting. */
export function timeParts(record: RolloutRecord): { key: string; label: string; seconds: number }[] {
  const waiting = record.duration_s - record.sampling_s - record.tools_s - record.grading_s;
  const parts = [
    { key: "sampling", label: "Sampling", seconds: record.sampling_s },
    { key: "tools", label: "Tools", seconds: record.tools_s },
    { key: "grading", label: "Grading", seconds: record.grading_s },
    { key: "waiting", label: "Waiting", seconds: waiting },
  ];
  return parts.filter((part) => part.seconds > 0.0005);
}
