/** When a rollout waited for whom, as far as it is recorded: its calls have times, its turns have none. */
import type { Attempt } from "../api/types";

export interface Bar {
  id: string;
  kind: "queued" | "tool" | "grading" | "failed";
  label: string;
  /** Seconds from the beginning of the line. */
  from: number;
  to: number;
}

export interface Lane {
  label: string;
  bars: Bar[];
}

export interface Timeline {
  /** One for the time between calls, then one for each endpoint. */
  lanes: Lane[];
  /** Time from the first call to the end of the last, when no call was made: sampling, or waiting for the sampler. */
  between: { from: number; to: number }[];
  seconds: number;
  /** Calls that are left out, of a rollout that made very many. */
  leftOut: number;
}

const MOST = 400;

/** Null without a call: then nothing has a time. */
export function timeline(attempts: readonly Attempt[]): Timeline | null {
  const known = attempts.slice(0, MOST);
  const first = known[0];
  if (first === undefined) return null;
  const start = Math.min(...known.map(began));
  const end = Math.max(...known.map((attempt) => attempt.at));
  const lanes = new Map<string, Lane>();
  for (const attempt of known) {
    const lane = lanes.get(attempt.endpoint) ?? { label: attempt.endpoint, bars: [] };
    const sent = attempt.at - attempt.latency_ms / 1000 - start;
    const label = `${attempt.endpoint}, attempt ${attempt.attempt}`;
    const queued: Bar[] =
      attempt.queued_ms > 0
        ? [{ id: `${attempt.id}q`, kind: "queued", label: `${label}: queued`, from: began(attempt) - start, to: sent }]
        : [];
    const kind = attempt.code !== null ? "failed" : attempt.stage === "grader" ? "grading" : "tool";
    lane.bars.push(...queued, { id: attempt.id, kind, label, from: sent, to: attempt.at - start });
    lanes.set(attempt.endpoint, lane);
  }
  const busy = known.map((attempt) => ({ from: began(attempt) - start, to: attempt.at - start }));
  return {
    lanes: [...lanes.values()],
    between: gaps(busy),
    seconds: end - start,
    leftOut: attempts.length - known.length,
  };
}

function began(attempt: Attempt): number {
  return attempt.at - (attempt.latency_ms + attempt.queued_ms) / 1000;
}

/** Where none of the spans is. */
function gaps(spans: readonly { from: number; to: number }[]): { from: number; to: number }[] {
  const found: { from: number; to: number }[] = [];
  let end = 0;
  for (const span of [...spans].toSorted((a, b) => a.from - b.from)) {
    if (span.from - end > 0.0005) found.push({ from: end, to: span.from });
    end = Math.max(end, span.to);
  }
  return found;
}
