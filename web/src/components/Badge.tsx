import { words } from "../lib/format";

const TONES: Record<string, string> = {
  succeeded: "good",
  failed: "bad",
  running: "active",
  validating_files: "active",
  paused: "warn",
};

/** A job's status. */
export function StatusBadge({ status }: { status: string }) {
  return <span className={`badge ${TONES[status] ?? ""}`}>{words(status)}</span>;
}
