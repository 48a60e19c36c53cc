import type { Progress } from "../lib/summary";

/** How far a job is, as a thin bar. */
export function ProgressBar({ progress, status }: { progress: Progress | null; status: string }) {
  const tone = status === "failed" ? "bad" : status === "cancelled" ? "quiet" : "";
  return (
    <div
      className={`progress ${tone}`}
      role="progressbar"
      aria-label="Steps done"
      aria-valuemin={0}
      aria-valuemax={progress?.total ?? 1}
      aria-valuenow={progress?.step ?? 0}
    >
      <div style={{ width: `${(progress?.share ?? 0) * 100}%` }} />
    </div>
  );
}
