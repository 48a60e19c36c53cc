import { Link } from "wouter";
import type { FailedCall, JobCalls } from "../../api/types";
import { Preformatted } from "../../components/Preformatted";
import { Problem, Skeleton } from "../../components/State";
import { useFailedCalls } from "../../data/endpoints";
import { ago } from "../../lib/format";
import { answer, toneOf } from "../../lib/ledger";

/** The last calls that went wrong, each behind a fold; the newest is open. */
export function FailedCalls({ calls, now }: { calls: JobCalls; now: number }) {
  const failed = useFailedCalls(calls);
  if (failed.error) return <Problem error={failed.error} onRetry={() => void failed.refetch()} />;
  if (failed.isPending) return <Skeleton height={80} />;
  if (failed.data.length === 0) {
    return (
      <p className="muted small">No request was kept: it is told with the next calls, or is of an earlier release.</p>
    );
  }
  return (
    <section className="failed-calls" aria-label={`Failed calls of ${calls.health.endpoint}`}>
      <p className="muted small">A few of each half minute, up to twenty; cut at 4,096 characters, secrets redacted.</p>
      {failed.data.map((call, place) => (
        <Exchange
          key={`${call.call_id} ${call.attempt} ${call.at}`}
          job={calls.job_id}
          call={call}
          now={now}
          isOpen={place === 0}
        />
      ))}
    </section>
  );
}

function Exchange({ job, call, now, isOpen }: { job: string; call: FailedCall; now: number; isOpen: boolean }) {
  return (
    <details open={isOpen}>
      <summary>
        <span className={toneOf(call)}>{answer(call)}</span>{" "}
        <span className="muted small">
          {ago(call.at, now)}, attempt {call.attempt}
        </span>
      </summary>
      {call.message && <p className="small">It {call.message}.</p>}
      <div className="small">
        <Link href={`/jobs/${job}/rollouts/${call.trace_id}`}>Its rollout</Link>
      </div>
      <div className="failed-exchange">
        <Body title="Request" text={call.request} />
        <Body title="Reply" text={call.reply} />
      </div>
    </details>
  );
}

function Body({ title, text }: { title: string; text: string | null }) {
  return (
    <div>
      <h3 className="small">{title}</h3>
      {text === null ? (
        <p className="muted small">None came.</p>
      ) : (
        <Preformatted label={title}>{text || "empty"}</Preformatted>
      )}
    </div>
  );
}
