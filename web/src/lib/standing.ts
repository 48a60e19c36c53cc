/** How a job stands when it does not simply run, and what can be asked of it. */
import type { Action, Job } from "../api/types";
import { humanize, span } from "./format";
import { isTerminal } from "./summary";

export interface Mark {
  label: string;
  /** Class of the badge. */
  tone: "good" | "bad" | "warn" | "active" | "";
}

const TONES: Record<string, Mark["tone"]> = {
  succeeded: "good",
  failed: "bad",
  running: "active",
  validating_files: "active",
};

/** The status in a word. `paused` is three things: held, paused because the platform failed it, or by its customer. */
export function mark(job: Job): Mark {
  if (isTerminal(job)) return { label: humanize(job.status), tone: TONES[job.status] ?? "" };
  if (job.is_cancel_requested) return { label: "cancelling", tone: "" };
  if (job.is_pause_requested) return { label: "pausing", tone: "" };
  if (job.hold !== null) return { label: "held", tone: "warn" };
  if (job.status === "paused" && job.pause_reason !== null) return { label: "paused by the platform", tone: "bad" };
  return { label: humanize(job.status), tone: TONES[job.status] ?? "" };
}

/** What the buttons offer; the API has the last word. */
export function actions(job: Job): Action[] {
  if (isTerminal(job) || job.is_cancel_requested) return [];
  if (job.is_pause_requested || job.status === "validating_files") return ["cancel"];
  return [job.status === "paused" && job.hold === null ? "resume" : "pause", "cancel"];
}

export interface Waiting {
  title: string;
  text: string;
}

/** What to say in place of curves while there are none. */
export function waiting(job: Job): Waiting {
  switch (job.status) {
    case "validating_files":
      return { title: "The files are being checked", text: "Every line is read before the job is queued." };
    case "queued":
      return { title: "Waiting for its turn", text: queueText(job.waits_for) };
    case "paused":
      return { title: "No step is complete yet", text: "The job stopped before its first step was done." };
    case "running":
      return {
        title: "No step is complete yet",
        text: "The baseline comes first: the untrained model is evaluated on the validation file. The curves start there.",
      };
    case "succeeded":
    case "failed":
    case "cancelled":
      return { title: "No curves", text: "The job ended before its first step was done." };
  }
}

function queueText(holders: Job["waits_for"]): string {
  if (holders === null || holders.length === 0) return "A worker starts it next.";
  const names = holders.map((one) => (one.hold === null ? one.job : `${one.job} (held by ${one.hold})`));
  return `${holders.length === 1 ? "The training slot is" : "The training slots are"} taken by ${names.join(", ")}.`;
}

export interface HoldNotice {
  title: string;
  /** What is wrong; null where nothing is. */
  reason: string | null;
  /** What happens next. */
  outlook: string;
  /** The job waits for somebody else than its customer. */
  isHeld: boolean;
}

function quiet(title: string, outlook: string): HoldNotice {
  return { title, reason: null, outlook, isHeld: false };
}

/** What to say about a job that is held, paused or about to stop; null while it simply goes on. */
export function holdNotice(job: Job, now: number): HoldNotice | null {
  const { label } = mark(job);
  if (label === "cancelling") return quiet("Cancelling", "The current step is given up.");
  if (label === "pausing") return quiet("Pausing", "The current step is given up and will be done again.");
  if (job.status !== "paused") return null;
  if (job.hold === null) {
    const start = job.current_step === null ? "the beginning" : `the checkpoint of step ${job.current_step}`;
    const outlook = `Its machine is free. Resume it to go on from ${start}.`;
    if (job.pause_reason === null) return quiet("Paused", outlook);
    return { title: "Paused: the platform failed", reason: job.pause_reason.message, outlook, isHeld: false };
  }
  const { endpoint, reason, since, step } = job.hold;
  return {
    title: `Held: waiting for ${endpoint}`,
    reason,
    outlook: `For ${span(now - since)} now. The platform keeps trying; step ${step} goes on by itself as soon as it answers.`,
    isHeld: true,
  };
}
