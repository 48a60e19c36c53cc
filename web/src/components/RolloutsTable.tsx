import { Link } from "wouter";
import type { RolloutSummary } from "../api/types";
import { count, duration, fixed } from "../lib/format";
import { barShare, endWords, SPLIT_WORDS } from "../lib/outcome";

interface Props {
  rollouts: readonly RolloutSummary[];
  /** Where a rollout's trace is. */
  hrefOf(rollout: RolloutSummary): string;
}

/** Rollouts, one per line. */
export function RolloutsTable({ rollouts, hrefOf }: Props) {
  return (
    <div className="scroll">
      <table className="rollouts">
        <thead>
          <tr>
            <th>Rollout</th>
            <th className="number">Step</th>
            <th>Split</th>
            <th className="number">Row</th>
            <th>Reward</th>
            <th>Ended</th>
            <th className="number">Tool calls</th>
            <th className="number">Tokens</th>
            <th className="number">Time</th>
            <th className="number">Policy</th>
          </tr>
        </thead>
        <tbody>
          {rollouts.map((rollout) => (
            <tr key={rollout.id} className="clickable">
              <td>
                <Link href={hrefOf(rollout)} className="mono row-link">
                  {rollout.id.slice(0, 14)}
                </Link>
              </td>
              <td className="number">{rollout.step}</td>
              <td>{SPLIT_WORDS[rollout.split]}</td>
              <td className="number nowrap">
                {rollout.row_index}
                <span className="muted"> #{rollout.group_index + 1}</span>
              </td>
              <td>
                <RewardBar reward={rollout.reward} />
              </td>
              <td className={rollout.failure_code === null ? "muted" : "bad"}>
                {endWords(rollout)}
                {rollout.failure_stage && <span className="muted"> ({rollout.failure_stage})</span>}
              </td>
              <td className="number">{rollout.tool_calls}</td>
              <td className="number">{count(rollout.completion_tokens)}</td>
              <td className="number nowrap">{duration(rollout.duration_s)}</td>
              <td className="number muted">{rollout.policy_version}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A reward as number and bar; "excluded" where there is none, never 0. */
export function RewardBar({ reward }: { reward: number | null }) {
  if (reward === null) return <span className="muted">excluded</span>;
  return (
    <span className="reward-bar">
      <span>{fixed(reward, 2)}</span>
      <span className="track" aria-hidden="true">
        <span style={{ width: `${barShare(reward) * 100}%` }} />
      </span>
    </span>
  );
}
