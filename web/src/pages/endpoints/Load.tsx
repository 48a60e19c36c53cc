import type { JobCalls } from "../../api/types";
import { limitOf, loadOf, paceOf, waitOf } from "../../lib/endpoints";
import { ago } from "../../lib/format";

/** Calls in flight and how fast they end; how many there may be, why, and whether the endpoint is down. */
export function Load({ calls, now }: { calls: JobCalls; now: number }) {
  const { load } = calls;
  if (load === null) return loadOf(calls);
  const wait = waitOf(load, now);
  return (
    <>
      {loadOf(calls)} <span className="muted small">{paceOf(load)}</span>
      {wait && <div className="bad small">{wait}</div>}
      {load.reason !== "down" && (
        <div className="muted small">
          {limitOf(load)}: {load.why}, {ago(load.changed_at, now)}
        </div>
      )}
    </>
  );
}
