import { useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { jobsApi } from "../../api/jobs";
import type { EndedRollout, RolloutQuery, RolloutSummary } from "../../api/types";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { keys, useSiblings } from "../../data/queries";
import { toTurns } from "../../lib/conversation";
import { changed } from "../../lib/filters";
import { plural } from "../../lib/format";
import { hasEnded, inOrder } from "../../lib/outcome";
import { advantages, firstDifference, ways } from "../../lib/parting";
import { GroupColumn } from "./GroupColumn";
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
      {list.length > 0 && <SideBySide jobId={jobId} list={list} />}
    </>
  );
}

const AT_ONCE = 8;

function SideBySide({ jobId, list }: { jobId: string; list: readonly RolloutSummary[] }) {
  const [most, setMost] = useState(AT_ONCE);
  const scores = advantages(list.map((rollout) => rollout.reward));
  const shown = list.slice(0, most);
  const loaded = useQueries({
    queries: shown.map((rollout) => ({
      queryKey: keys.rollout(jobId, rollout.id),
      queryFn: () => jobsApi.rollout(jobId, rollout.id),
      staleTime: Number.POSITIVE_INFINITY,
    })),
  });
  const failed = loaded.find((one) => one.error)?.error;
  if (failed) return <Problem error={failed} />;
  const ended = loaded.flatMap((one): EndedRollout[] => (one.data && hasEnded(one.data) ? [one.data] : []));
  if (ended.length < shown.length) return <Skeleton height={420} />;
  const conversations = ended.map((rollout) => toTurns(rollout.record));
  const turn = firstDifference(conversations);
  const letters = turn === null ? [] : ways(conversations, turn);
  return (
    <>
      <p>{story(turn, letters, scores)}</p>
      <div className="group-columns">
        {ended.map((rollout, i) => (
          <GroupColumn
            key={rollout.id}
            href={`/jobs/${jobId}/rollouts/${rollout.id}`}
            rollout={rollout}
            advantage={scores[i] ?? null}
            turns={conversations[i] ?? []}
            partsAt={turn}
            way={letters[i] ?? null}
          />
        ))}
      </div>
      {list.length > most && (
        <button type="button" className="show-more" onClick={() => setMost(most + AT_ONCE)}>
          Show more of this group ({list.length - most} left)
        </button>
      )}
    </>
  );
}

function story(turn: number | null, letters: readonly string[], scores: readonly (number | null)[]): string {
  const signal = scores.every((score) => score === null)
    ? "Its graded rewards are all equal, or fewer than two: there is nothing to learn from it."
    : "Advantages are the rewards less their mean, over their deviation.";
  if (turn === null) return `All say and hear the same to the end. ${signal}`;
  return `They part at turn ${turn}, in ${plural(new Set(letters).size, "way")}. ${signal}`;
}
