/** Folds what the stream sends into what is already there. A stream may tell again what is known. */
import type { Positioned } from "../api/http";
import type { StreamMessage } from "../api/stream";
import type { Job, JobEvent } from "../api/types";
import type { JobCurves } from "./summary";

/** More are not kept: a chart is hardly wider, and a page may be open for days. */
const MOST_POINTS = 600;
/** Nor more of what the stream told: so many are cut to so few, rarely, for it changes what can be scrolled to. */
const MOST_EVENTS = 2000;
const KEPT_EVENTS = 1000;

export interface Known<C extends JobCurves = JobCurves> {
  job: Job | undefined;
  curves: C | undefined;
  events: readonly JobEvent[];
}

export interface Folded<C extends JobCurves = JobCurves> extends Known<C> {
  /** Steps were finished or voided that were not known before. */
  hasNewSteps: boolean;
  /** They are to be asked for anew: sums count steps that were voided or done again, or too many points have come. */
  areCurvesStale: boolean;
  /** Old events were dropped: what is older than the last of those here is to be asked for behind it. */
  areEventsCut: boolean;
}

/** What is known after `messages`. What was not loaded yet stays unknown: the answer under way has it all. */
export function fold<C extends JobCurves>(known: Known<C>, messages: readonly StreamMessage[]): Folded<C> {
  // The stream tells the oldest first.
  const events = messages
    .flatMap((message) => (message.type === "event" ? [withoutFigures(message.data)] : []))
    .toReversed();
  const job = messages.findLast((message) => message.type === "job")?.data ?? known.job;
  const { curves, isStale } = known.curves ? foldSteps(known.curves, messages) : { curves: undefined, isStale: false };
  const all = events.length ? mergeEvents(events, [known.events]) : known.events;
  const areEventsCut = all.length > MOST_EVENTS;
  return {
    job,
    curves,
    events: areEventsCut ? newest(all) : all,
    areEventsCut,
    hasNewSteps: curves !== known.curves,
    areCurvesStale: isStale || (points(known.curves) <= MOST_POINTS && points(curves) > MOST_POINTS),
  };
}

/** Down to a message where there is one: going back to a checkpoint takes figures back, and no page can follow them. */
function newest(events: readonly JobEvent[]): readonly JobEvent[] {
  const kept = events.slice(0, KEPT_EVENTS);
  const last = kept.findLastIndex((event) => event.type === "message");
  return last < 0 ? kept : kept.slice(0, last + 1);
}

function points(curves: JobCurves | undefined): number {
  return curves?.data.length ?? 0;
}

/** Without a step's figures, which come as a step, too: a page that is open for hours would keep them all. */
function withoutFigures(event: JobEvent): JobEvent {
  return event.type === "metrics" ? { ...event, data: null } : event;
}

/** A step behind the last is new, one that is not drawn was left out; going back to a checkpoint voids those above. */
function foldSteps<C extends JobCurves>(
  curves: C,
  messages: readonly StreamMessage[],
): { curves: C; isStale: boolean } {
  const now = { data: [...curves.data], steps: curves.steps, rollouts: curves.rollouts, excluded: curves.excluded };
  let [isChanged, isStale] = [false, false];
  for (const message of messages) {
    if (message.type === "step") {
      const step = message.data;
      const index = now.data.findLastIndex((one) => one.step <= step.step);
      const at = now.data[index];
      if (index === now.data.length - 1 && at?.step !== step.step) {
        now.data.push(step);
        now.steps += 1;
        for (const stats of [step.record.train, step.record.valid]) {
          now.rollouts += stats?.rollouts ?? 0;
          now.excluded += stats?.excluded ?? 0;
        }
        isChanged = true;
      } else if (at?.step === step.step && at.created_at !== step.created_at) {
        now.data[index] = step;
        [isChanged, isStale] = [true, true];
      }
    }
    if (message.type === "job") {
      const current = message.data.current_step ?? -1;
      const kept = now.data.filter((step) => step.step <= current);
      if (kept.length < now.data.length) {
        now.data = kept;
        [isChanged, isStale] = [true, true];
      }
    }
  }
  return { curves: isChanged ? { ...curves, ...now } : curves, isStale };
}

/** Newest first, each event once. Events of one second keep their order: `first` is newer than `pages`. */
export function mergeEvents(first: readonly JobEvent[], pages: readonly (readonly JobEvent[])[]): JobEvent[] {
  const byId = new Map([...first, ...pages.flat()].map((event) => [event.id, event]));
  return [...byId.values()].toSorted((a, b) => b.created_at - a.created_at);
}

/** Behind which a page brings what is not known, after one that ends with `last`: a stream may have told what follows. */
export function lastKnown(last: JobEvent, live: readonly JobEvent[]): JobEvent {
  const index = live.findIndex((event) => event.id === last.id);
  return (index < 0 ? undefined : live.slice(index).findLast((event) => event.type === "message")) ?? last;
}

/** Where a stream goes on that misses nothing since these replies were made; undefined without any. */
export function streamPosition(...replies: readonly (Positioned | undefined)[]): string | undefined {
  const positions = replies.flatMap((reply) => (reply ? [Number(reply.lastEventId)] : []));
  return positions.length ? String(Math.min(...positions)) : undefined;
}

/** Numbers of the events that streams told without a gap: after `from`, up to `to`. */
export interface Span {
  from: number;
  to: number;
}

/**
 * Where the next stream starts once replies have come as far as `position`, and what it makes longer. After a long time
 * without a stream replies are ahead of what was `told`, and the newest page of events does not reach back to it.
 */
export function goingOn(told: Span | null, position: string | undefined): { span: Span; start: string } {
  const at = Number(position ?? 0);
  const span = told !== null && told.from <= at ? told : { from: at, to: at };
  return { span, start: String(Math.min(at, span.to)) };
}

/** Whether replies are so much ahead of what streams told that none is to catch up with them. */
export function isBehind(told: Span | null, position: string | undefined, most = MOST_EVENTS): boolean {
  return told !== null && Number(position ?? 0) - told.to > most;
}

/** Seconds to wait before the next attempt to connect, after `failures` in a row. */
export function reconnectDelay(failures: number): number {
  return Math.min(30, 0.5 * 2 ** Math.min(failures, 10));
}
