/** When a rollout waited for whom: its turns, its calls, its grade. */
import type { Attempt, RolloutRecord } from "../api/types";
import { isFailure } from "./outcome";

export interface Bar {
  id: string;
  kind: "sampling" | "between" | "queued" | "tool" | "grading" | "failed";
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
  /** The policy's first, then one for each endpoint, then that of a grader without one. */
  lanes: Lane[];
  seconds: number;
  /** Turns and attempts that are left out, of a rollout that has very many. */
  leftOut: number;
}

export type Timed = Pick<RolloutRecord, "grading_s" | "outcome" | "turn_times">;
type TurnTimes = NonNullable<Timed["turn_times"]>[number];

const MOST = 400;
const POLICY = "policy";
const UNKNOWN = "sampling or waiting";

/** Null where nothing has a time. */
export function timeline(attempts: readonly Attempt[], record: Timed): Timeline | null {
  const turnTimes = record.turn_times ?? [];
  const [calls, turns] = [attempts.slice(0, MOST), turnTimes.slice(0, MOST)];
  const bars = [...turns.map(turnBar), ...calls.flatMap(callBars)];
  const grading = gradingBar(attempts, turnTimes, record);
  if (grading !== null) bars.push(grading);
  if (bars.length === 0) return null;
  const start = Math.min(...bars.map((bar) => bar.from));
  const end = Math.max(...bars.map((bar) => bar.to));
  const lanes = new Map<string, Lane>();
  if (turns.length === 0) lanes.set(UNKNOWN, { label: UNKNOWN, bars: gaps(bars) });
  for (const { lane, ...bar } of bars) {
    const own = lanes.get(lane) ?? { label: lane, bars: [] };
    own.bars.push(bar);
    lanes.set(lane, own);
  }
  for (const lane of lanes.values()) {
    lane.bars = lane.bars.map((bar) => ({ ...bar, from: bar.from - start, to: bar.to - start }));
  }
  const leftOut = attempts.length - calls.length + turnTimes.length - turns.length;
  return { lanes: [...lanes.values()], seconds: end - start, leftOut };
}

/** In seconds of the clock, with the name of its lane. */
type Placed = Bar & { lane: string };

function turnBar(turn: TurnTimes, index: number): Placed {
  return {
    id: `turn${index}`,
    lane: POLICY,
    kind: "sampling",
    label: `turn ${index + 1}, ${turn.completion_tokens} tokens`,
    from: turn.began_at,
    to: turn.began_at + turn.sampling_s,
  };
}

function callBars(attempt: Attempt): Placed[] {
  const lane = attempt.endpoint;
  const label = `${attempt.endpoint}, attempt ${attempt.attempt}`;
  const sent = attempt.at - attempt.latency_ms / 1000;
  const kind = attempt.code !== null ? "failed" : attempt.stage === "grader" ? "grading" : "tool";
  const call: Placed = { id: attempt.id, lane, kind, label, from: sent, to: attempt.at };
  if (attempt.queued_ms <= 0) return [call];
  const queued = { id: `${attempt.id}q`, lane, kind: "queued" as const, label: `${label}: queued` };
  return [{ ...queued, from: sent - attempt.queued_ms / 1000, to: sent }, call];
}

/** Of a grader that calls nobody: it judges when the last turn is over. */
function gradingBar(attempts: readonly Attempt[], turns: readonly TurnTimes[], record: Timed): Placed | null {
  const last = turns.at(-1);
  const hasCalls = attempts.some((attempt) => attempt.stage === "grader");
  if (last === undefined || hasCalls || record.grading_s <= 0 || isFailure(record.outcome)) return null;
  const from = last.began_at + last.sampling_s + last.tools_s;
  const lane = record.outcome.grader;
  return { id: "grading", lane, kind: "grading", label: lane, from, to: from + record.grading_s };
}

/** Where none of the bars is. */
function gaps(bars: readonly Bar[]): Bar[] {
  const found: Bar[] = [];
  let end = Math.min(...bars.map((bar) => bar.from));
  for (const bar of [...bars].toSorted((a, b) => a.from - b.from)) {
    if (bar.from - end > 0.0005) {
      found.push({ id: `gap${end}`, kind: "between", label: UNKNOWN, from: end, to: bar.from });
    }
    end = Math.max(end, bar.to);
  }
  return found;
}
