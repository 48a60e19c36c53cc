/** Calls of two policies, in words. */
import type { CallCounts, CallPair } from "../api/types";
import { count, percent, plural } from "./format";

/** How often a policy made a call again. */
export function madeAgain(step: number, counts: CallCounts): string {
  if (counts.calls === 0) return `no call at step ${step}`;
  const share = percent(counts.repeated / counts.calls);
  const where = `in ${count(counts.repeating_rollouts)} of ${plural(counts.rollouts, "rollout")}`;
  return `${count(counts.repeated)} of ${plural(counts.calls, "call")} at step ${step} (${share}), ${where}`;
}

/** Two calls in a row. */
export function pairName(pair: Pick<CallPair, "first" | "second" | "is_same">): string {
  return pair.is_same ? `${pair.first}, the same once more` : `${pair.first} → ${pair.second}`;
}
