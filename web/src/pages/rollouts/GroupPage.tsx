import { useMemo, useState } from "react";
import { Link } from "wouter";
import type { RolloutQuery, RolloutSummary } from "../../api/types";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useSiblings } from "../../data/queries";
import { changed } from "../../lib/filters";
import { plural } from "../../lib/format";
import { inOrder } from "../../lib/outcome";
import { advantages } from "../../lib/parting";
import { SideBySide } from "./SideBySide";
import "./trace.css";

interface Props {
  jobId: string;
  split: string;
  step: string;
  row: string;
}

/** The rollouts of one row in one step, side by side: what each was worth, and where they part. */
export function GroupPage({ jobId, split, step, row }: Props) {
  const place: [keyof RolloutQuery, string][] = [["split", split], ["step", step], ["row_index", row]]; // prettier-ignore
  const wanted = place.reduce<RolloutQuery>((query, [name, text]) => changed(query, name, text), {});
  const group = useSiblings(jobId, wanted);
  const list = useMemo(() => inOrder(group.data?.data ?? []), [group.data]);
  return (
    <>
      <title>{`Group of row ${row}, step ${step} · Agent RFT`}</title>
      <Trail
        parts={[
          { label: "Jobs", href: "/" },
          { label: jobId, href: `/jobs/${jobId}` },
          { label: "Rollouts", href: `/jobs/${jobId}/rollouts` },
          { label: `Row ${row}, step ${step}` },
        ]}
      />
      <div className="title-row">
        <h1>Group of row {row}</h1>
        <Link href={`/jobs/${jobId}/rollouts?split=${split}&step=${step}`}>step {step}</Link>
        <span className="muted">{group.data && plural(list.length, "rollout")}</span>
      </div>
      {group.error && <Problem error={group.error} onRetry={() => void group.refetch()} />}
      {group.isPending && <Skeleton height={420} />}
      {group.data && list.length === 0 && <Empty title="There are no rollouts of this row in this step" />}
      {list.length > 0 && <Columns jobId={jobId} list={list} />}
    </>
  );
}

const AT_ONCE = 8;

function Columns({ jobId, list }: { jobId: string; list: readonly RolloutSummary[] }) {
  const [most, setMost] = useState(AT_ONCE);
  const scores = advantages(list.map((rollout) => rollout.reward));
  const shown = list.slice(0, most).map((rollout, i) => ({
    id: rollout.id,
    name: `#${rollout.group_index + 1}`,
    advantage: scores[i] ?? null,
  }));
  return (
    <>
      <SideBySide jobId={jobId} rollouts={shown} story={(turn, ways) => story(turn, ways, scores)} />
      {list.length > most && (
        <button type="button" className="show-more" onClick={() => setMost(most + AT_ONCE)}>
          Show more of this group ({list.length - most} left)
        </button>
      )}
    </>
  );
}

function story(turn: number | null, ways: number, scores: readonly (number | null)[]): string {
  const signal = scores.every((score) => score === null)
    ? "Its graded rewards are all equal, or fewer than two: there is nothing to learn from it."
    : "Advantages are the rewards less their mean, over their deviation.";
  if (turn === null) return `All say and hear the same to the end. ${signal}`;
  return `They part at turn ${turn}, in ${plural(ways, "way")}. ${signal}`;
}
