import type { Job } from "../api/types";
import { mark } from "../lib/standing";

/** A job's status. */
export function StatusBadge({ job }: { job: Job }) {
  const { label, tone } = mark(job);
  return <span className={`badge ${tone}`}>{label}</span>;
}
