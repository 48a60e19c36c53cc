import { Link } from "wouter";
import type { CallChange } from "../../api/types";
import { Problem, Skeleton } from "../../components/State";
import { useCallChange } from "../../data/queries";
import { madeAgain, pairName } from "../../lib/call_change";
import { compact, count } from "../../lib/format";

interface Props {
  jobId: string;
  before: number;
  after: number;
}

/** Calls that either policy makes again with the same arguments, and which call follows which. */
export function RepeatedCalls({ jobId, before, after }: Props) {
  const asked = useCallChange(jobId, before, after);
  const told = asked.data;
  return (
    <section className="panel" inert={asked.isPlaceholderData} aria-labelledby="repeated-calls">
      <header>
        <h2 id="repeated-calls">Repeated calls</h2>
        {told && (
          <span className="muted small">
            made again with the same arguments: {madeAgain(told.before, told.calls_before)};{" "}
            {madeAgain(told.after, told.calls_after)}
          </span>
        )}
      </header>
      {asked.error && <Problem error={asked.error} onRetry={() => void asked.refetch()} />}
      {asked.isPending && <Skeleton height={160} />}
      {told && told.pairs.length > 0 && (
        <div className="repeated-calls">
          <Pairs told={told} />
          {told.repeated.length > 0 && <Again told={told} jobId={jobId} />}
        </div>
      )}
    </section>
  );
}

function Pairs({ told }: { told: CallChange }) {
  return (
    <div className="scroll">
      <table>
        <thead>
          <tr>
            <th>One call after another, per rollout</th>
            <th className="number">step {told.before}</th>
            <th className="number">step {told.after}</th>
          </tr>
        </thead>
        <tbody>
          {told.pairs.map((pair) => (
            <tr key={`${pair.first} ${pair.second} ${pair.is_same}`}>
              <td className="mono">{pairName(pair)}</td>
              <td className="number">{compact(pair.before)}</td>
              <td className="number">{compact(pair.after)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Again({ told, jobId }: { told: CallChange; jobId: string }) {
  return (
    <div className="scroll">
      <table>
        <thead>
          <tr>
            <th>Made again most often</th>
            <th className="number">step {told.before}</th>
            <th className="number">step {told.after}</th>
            <th>In</th>
          </tr>
        </thead>
        <tbody>
          {told.repeated.map((call) => (
            <tr key={`${call.tool} ${call.arguments} ${call.trace_id}`}>
              <td className="mono repeated-call">
                {call.tool} <span className="muted">{call.arguments}</span>
              </td>
              <td className="number">{count(call.before)}</td>
              <td className="number">{count(call.after)}</td>
              <td>
                <Link href={`/jobs/${jobId}/rollouts/${call.trace_id}`}>trace</Link>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
