import type { Job } from "../api/types";
import { holdNotice } from "../lib/standing";

/** Why a job is held or paused, and what happens next. */
export function HoldBanner({ job, now }: { job: Job; now: number }) {
  const said = holdNotice(job, now);
  if (said === null) return null;
  return (
    <div className={`banner hold-banner ${said.isHeld ? "warn" : "quiet"}`}>
      <strong role="status">{said.title}</strong>
      <div>
        {said.reason && <p>{said.reason}</p>}
        <p className={said.reason ? "small" : ""}>{said.outlook}</p>
      </div>
    </div>
  );
}
