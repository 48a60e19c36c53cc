/** Folds what the stream sends into what is already there. A stream tells a job's history again when it reconnects. */
import type { StreamMessage } from "../api/stream";
import type { Job, JobEvent, Step } from "../api/types";

export interface Known {
  job: Job | undefined;
  steps: readonly Step[] | undefined;
  events: readonly JobEvent[];
}

export interface Folded extends Known {
  /** Steps were finished or voided that were not known before. */
  hasNewSteps: boolean;
}

/** What is known after `messages`. What was not loaded yet stays unknown: the answer under way has it all. */
export function fold(known: Known, messages: readonly StreamMessage[]): Folded {
  // The stream tells the oldest first.
  const events = messages.flatMap((message) => (message.type === "event" ? [message.data] : [])).toReversed();
  const job = messages.findLast((message) => message.type === "job")?.data ?? known.job;
  const steps = known.steps && foldSteps(known.steps, messages);
  return {
    job,
    steps,
    events: events.length ? mergeEvents(known.events, [events]) : known.events,
    hasNewSteps: steps !== known.steps,
  };
}

/** The newer record of a step wins; a job that went back to an earlier checkpoint voids the steps above it. */
function foldSteps(steps: readonly Step[], messages: readonly StreamMessage[]): readonly Step[] {
  const byStep = new Map(steps.map((step) => [step.step, step]));
  let isChanged = false;
  for (const message of messages) {
    if (message.type === "step" && byStep.get(message.data.step)?.created_at !== message.data.created_at) {
      byStep.set(message.data.step, message.data);
      isChanged = true;
    }
    if (message.type === "job") {
      const current = message.data.current_step ?? -1;
      for (const step of byStep.keys()) isChanged = (step > current && byStep.delete(step)) || isChanged;
    }
  }
  return isChanged ? [...byStep.values()].toSorted((a, b) => a.step - b.step) : steps;
}

/** Newest first, each event once. Events of one second keep their order: `first` is newer than `pages`. */
export function mergeEvents(first: readonly JobEvent[], pages: readonly (readonly JobEvent[])[]): JobEvent[] {
  const byId = new Map([...first, ...pages.flat()].map((event) => [event.id, event]));
  return [...byId.values()].toSorted((a, b) => b.created_at - a.created_at);
}

/** Seconds to wait before the next attempt to connect, after `failures` in a row. */
export function reconnectDelay(failures: number): number {
  return Math.min(30, 0.5 * 2 ** Math.min(failures, 10));
}
