import { Link } from "wouter";
import { ApiError } from "../../api/http";
import type { RolloutDetail } from "../../api/types";
import { CallsPanel } from "../../components/AttemptList";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useAttempts } from "../../data/queries";
import { useRollout } from "../../data/rollouts";
import { sorted } from "../../lib/ledger";
import { hasEnded } from "../../lib/outcome";
import { LoadedRollout } from "./LoadedRollout";
import "./trace.css";

interface Props {
  jobId: string;
  traceId: string;
}

/** One rollout, message by message. */
export function RolloutPage({ jobId, traceId }: Props) {
  const rollout = useRollout(jobId, traceId);
  // Every kind of rollout has them: they are asked for at the same time, and followed here for all that shows them.
  useAttempts(jobId, traceId, rollout.data);
  return (
    <>
      <Trail
        parts={[
          { label: "Jobs", href: "/" },
          { label: jobId, href: `/jobs/${jobId}` },
          { label: traceId.slice(0, 14) },
        ]}
      />
      <title>{`${traceId} · Agent RFT`}</title>
      {rollout.error && (
        <Missing jobId={jobId} traceId={traceId} error={rollout.error} onRetry={() => void rollout.refetch()} />
      )}
      {rollout.isPending && <Skeleton height={420} />}
      {rollout.data && <Found jobId={jobId} rollout={rollout.data} />}
    </>
  );
}

const NO_ATTEMPTS: never[] = [];

/** A rollout that has not ended yet has attempts and nothing else. */
function Missing({ jobId, traceId, error, onRetry }: Props & { error: Error; onRetry(): void }) {
  const attempts = useAttempts(jobId, traceId);
  const { others } = sorted(attempts.data ?? NO_ATTEMPTS, new Set());
  if (!(error instanceof ApiError && error.status === 404) || others.length === 0) {
    return <Problem error={error} onRetry={onRetry} />;
  }
  return (
    <>
      <Empty title="This rollout has not ended yet">
        <span>Its conversation is shown here once it has. These are its calls so far.</span>
        <button type="button" onClick={onRetry}>
          Look again
        </button>
      </Empty>
      <CallsPanel title="Calls" calls={others} />
    </>
  );
}

/** A rollout; or a conversation that is not over, or was abandoned, and stands in no list. */
function Found({ jobId, rollout }: { jobId: string; rollout: RolloutDetail }) {
  const next = rollout.superseded_by;
  return (
    <>
      {rollout.status === "abandoned" && (
        <Empty title="This rollout was abandoned">
          <span>It was cut off, or its step was done again. It counts nowhere.</span>
          {next && <Link href={`/jobs/${jobId}/rollouts/${next}`}>The one that took its place</Link>}
        </Empty>
      )}
      {rollout.status === "in_progress" && (
        <Empty title="This rollout has not ended yet">
          <span>Its conversation is shown here once it has.</span>
        </Empty>
      )}
      {hasEnded(rollout) ? (
        <LoadedRollout jobId={jobId} rollout={rollout} />
      ) : (
        <BareCalls jobId={jobId} traceId={rollout.id} />
      )}
    </>
  );
}

function BareCalls({ jobId, traceId }: Props) {
  const attempts = useAttempts(jobId, traceId);
  const { others } = sorted(attempts.data ?? NO_ATTEMPTS, new Set());
  return others.length > 0 && <CallsPanel title="Calls" calls={others} />;
}
