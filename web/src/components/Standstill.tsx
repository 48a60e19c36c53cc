import type { Job } from "../api/types";
import { standstill } from "../lib/standing";

/** Why a job stands still, and what happens next. */
export function StandstillBanner({ job, now }: { job: Job; now: number }) {
  const said = standstill(job, now);
  if (said === null) return null;
  return (
    <div className={`banner standstill ${said.isHeld ? "warn" : "quiet"}`}>
      <strong role="status">{said.title}</strong>
      <div>
        {said.reason && <p>{said.reason}</p>}
        <p className={said.reason ? "small" : ""}>{said.outlook}</p>
      </div>
    </div>
  );
}
