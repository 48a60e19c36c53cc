import type { Attempt } from "../api/types";
import { clockTime } from "../lib/format";
import { answer, bytes, type Call, milliseconds, toneOf } from "../lib/ledger";

/** Every attempt of one call, in order. */
export function AttemptList({ attempts }: { attempts: readonly Attempt[] }) {
  return (
    <ol className="attempts small" aria-label="Attempts">
      {attempts.map((attempt) => (
        <li key={attempt.id} title={`ended at ${clockTime(attempt.at)}`}>
          <span className="muted">attempt {attempt.attempt}</span>
          <span className={toneOf(attempt)}>{answer(attempt)}</span>
          <span>{milliseconds(attempt.latency_ms)}</span>
          <span className="muted">queued {milliseconds(attempt.queued_ms)}</span>
          <span className="muted">
            {bytes(attempt.sent_bytes)} sent, {bytes(attempt.received_bytes)} received
          </span>
        </li>
      ))}
    </ol>
  );
}

/** Calls that stand nowhere in the conversation, or of a rollout whose conversation is not there yet. */
export function CallsPanel({ title, calls }: { title: string; calls: readonly Call[] }) {
  if (calls.length === 0) return null;
  return (
    <section className="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
      </header>
      <ol className="card calls">
        {calls.map((call) => (
          <li key={`${call.endpoint}/${call.id}`}>
            <span className="mono">{call.endpoint}</span> <span className="muted small">{call.purpose}</span>
            <AttemptList attempts={call.attempts} />
          </li>
        ))}
      </ol>
    </section>
  );
}
