import { Link } from "wouter";
import type { RolloutSummary } from "../api/types";
import { fixed } from "../lib/format";
import { barShare } from "../lib/outcome";

interface Props {
  title: string;
  rollouts: readonly RolloutSummary[];
  currentId: string;
  hrefOf(rollout: RolloutSummary): string;
}

/** The rollouts beside this one, by reward. */
export function Group({ title, rollouts, currentId, hrefOf }: Props) {
  return (
    <nav className="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
      </header>
      <ol className="group">
        {rollouts.map((rollout) => (
          <li key={rollout.id}>
            <Link
              href={hrefOf(rollout)}
              aria-current={rollout.id === currentId ? "page" : undefined}
              className={rollout.reward === null ? "chip excluded" : "chip"}
              title={`row ${rollout.row_index}, #${rollout.group_index + 1}: ${rollout.reward === null ? "excluded" : `reward ${fixed(rollout.reward, 3)}`}`}
            >
              <span className="fill" style={{ height: `${barShare(rollout.reward ?? 0) * 100}%` }} />
              <span className="text">{rollout.reward === null ? "✕" : fixed(rollout.reward, 2)}</span>
            </Link>
          </li>
        ))}
      </ol>
    </nav>
  );
}
