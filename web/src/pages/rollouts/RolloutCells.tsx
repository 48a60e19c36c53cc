import type { ReactNode } from "react";
import { Link } from "wouter";
import type { RolloutSummary } from "../../api/types";
import { RewardBar } from "../../components/RolloutsTable";
import { count, duration, NONE } from "../../lib/format";
import { endWords, SPLIT_WORDS } from "../../lib/outcome";
import type { Column } from "../../lib/rollout_columns";

/** One line of the table. */
export function RolloutCells({
  rollout,
  columns,
  href,
}: {
  rollout: RolloutSummary;
  columns: readonly Column[];
  href: string;
}) {
  return columns.map((column) => (
    <td key={column.id} className={column.isNumber ? "number" : undefined}>
      {column.id === "id" ? (
        <Link href={href} className="mono row-link">
          {rollout.id.slice(0, 12)}
        </Link>
      ) : (
        CELLS[column.id]?.(rollout)
      )}
    </td>
  ));
}

const CELLS: Record<string, (rollout: RolloutSummary) => ReactNode> = {
  step: (rollout) => rollout.step,
  split: (rollout) => SPLIT_WORDS[rollout.split],
  row: (rollout) => (
    <>
      {rollout.row_index}
      <span className="muted"> #{rollout.group_index + 1}</span>
    </>
  ),
  reward: (rollout) => <RewardBar reward={rollout.reward} />,
  end: (rollout) => (
    <span className={rollout.failure_code === null ? "muted" : "bad"}>
      {endWords(rollout)}
      {rollout.failure_stage && <span className="muted"> ({rollout.failure_stage})</span>}
    </span>
  ),
  prompt: (rollout) => <Preview text={rollout.prompt} />,
  answer: (rollout) => <Preview text={rollout.answer} />,
  calls: (rollout) => rollout.tool_calls,
  tokens: (rollout) => count(rollout.completion_tokens),
  time: (rollout) => duration(rollout.duration_s),
  policy: (rollout) => rollout.policy_version,
};

/** What somebody else wrote, on one line; its direction stays its own. */
function Preview({ text }: { text: string | null }) {
  if (text === null || text.trim() === "") return <span className="muted">{NONE}</span>;
  return (
    <bdi className="preview" title={text}>
      {text.replace(/\s+/g, " ")}
    </bdi>
  );
}
