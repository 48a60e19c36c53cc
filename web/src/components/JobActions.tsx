import { useState } from "react";
import { Link } from "wouter";
import type { Action } from "../api/types";
import { Confirmation } from "./Confirmation";

interface Props {
  jobId: string;
  /** What the job's state allows. */
  actions: readonly Action[];
  isBusy: boolean;
  onAct(action: Action): void;
  /** Where the job is over. */
  onDelete?: () => void;
}

const LABELS: Record<Action, string> = { pause: "Pause", resume: "Resume", cancel: "Cancel" };

/** Before a job, by its name, is cancelled. */
export function CancelQuestion({ job, ...does }: { job: string; onConfirm(): void; onClose(): void }) {
  return (
    <Confirmation
      title={`Cancel ${job} for good?`}
      consequence="It stops in the middle of its step and cannot be resumed. Its checkpoints stay."
      label="Yes, cancel"
      otherwise="Keep it"
      {...does}
    />
  );
}

/** What can be asked of a job. Cancelling and deleting are for good, so they are asked twice. */
export function JobActions({ jobId, actions, isBusy, onAct, onDelete }: Props) {
  const [question, setQuestion] = useState<"cancel" | "delete" | null>(null);
  // The job may end while the question is read: nothing is left to cancel, and nothing else takes the question's place.
  if (question === "cancel" && !actions.includes("cancel")) setQuestion(null);
  const close = () => setQuestion(null);
  return (
    <div className="actions" role="group" aria-label="Actions">
      {actions.map((action) => (
        <button
          key={action}
          type="button"
          className={action === "resume" ? "primary" : ""}
          disabled={isBusy}
          onClick={() => (action === "cancel" ? setQuestion("cancel") : onAct(action))}
        >
          {LABELS[action]}
        </button>
      ))}
      <Link href={`/new?from=${encodeURIComponent(jobId)}`} className="button" title="Order another job like this one">
        Clone
      </Link>
      {onDelete && (
        <button type="button" disabled={isBusy} onClick={() => setQuestion("delete")}>
          Delete
        </button>
      )}
      {question === "delete" && onDelete && (
        <Confirmation
          title="Delete this job?"
          consequence="Its events, steps, rollouts, results, checkpoints and models go with it. The files of its order stay."
          label="Yes, delete"
          otherwise="Keep it"
          onConfirm={onDelete}
          onClose={close}
        />
      )}
      {question === "cancel" && <CancelQuestion job="the job" onConfirm={() => onAct("cancel")} onClose={close} />}
    </div>
  );
}
