/** How the status of an eval's run is shown. */
import type { EvalRun } from "../api/types";

const RUN_MARKS: Record<EvalRun["status"], { label: string; tone: string }> = {
  queued: { label: "queued", tone: "" },
  in_progress: { label: "running", tone: "active" },
  completed: { label: "completed", tone: "good" },
  canceled: { label: "cancelled", tone: "" },
  failed: { label: "failed", tone: "bad" },
};

/** Whether a run goes on only until its worker sees that it is cancelled. */
export function isCancelling(run: Pick<EvalRun, "status" | "is_cancel_requested">): boolean {
  return run.status === "in_progress" && run.is_cancel_requested;
}

export function runMark(run: Pick<EvalRun, "status" | "is_cancel_requested">) {
  return isCancelling(run) ? { label: "cancelling", tone: "" } : RUN_MARKS[run.status];
}
