import { useQueries } from "@tanstack/react-query";
import type { EndedRollout } from "../../api/types";
import { Empty, Problem, Skeleton } from "../../components/State";
import { rolloutQuery } from "../../data/rollouts";
import { toTurns } from "../../lib/conversation";
import { hasEnded, unendedWords } from "../../lib/outcome";
import { firstDifference, ways } from "../../lib/parting";
import { GroupColumn } from "./GroupColumn";

export interface Shown {
  id: string;
  /** What its column is called. */
  name: string;
  /** Null where it carries no gradient; absent where nothing is said of it. */
  advantage?: number | null;
}

interface Props {
  jobId: string;
  rollouts: readonly Shown[];
  /** The sentence above, from where they part: the number of the turn, and in how many ways. */
  story(turn: number | null, ways: number): string;
}

/** Conversations in columns, marked where they part. */
export function SideBySide({ jobId, rollouts, story }: Props) {
  const loaded = useQueries({ queries: rollouts.map(({ id }) => rolloutQuery(jobId, id)) });
  const failed = loaded.filter((one) => one.error);
  const [problem] = failed.flatMap((one) => one.error ?? []);
  if (problem) return <Problem error={problem} onRetry={() => failed.forEach((one) => void one.refetch())} />;
  const ended = loaded.flatMap((one): EndedRollout[] => (one.data && hasEnded(one.data) ? [one.data] : []));
  const unended = unendedWords(loaded.flatMap(({ data }) => (data && !hasEnded(data) ? [data] : [])));
  if (unended !== null) {
    return (
      <Empty title="Not all of them can be shown">
        <span>{unended}</span>
      </Empty>
    );
  }
  if (ended.length < rollouts.length) return <Skeleton height={420} />;
  const conversations = ended.map((rollout) => toTurns(rollout.record));
  const turn = firstDifference(conversations);
  const letters = turn === null ? [] : ways(conversations, turn);
  return (
    <>
      <p>{story(turn, new Set(letters).size)}</p>
      <div className="group-columns">
        {ended.map((rollout, i) => (
          <GroupColumn
            key={rollout.id}
            name={rollouts[i]?.name ?? ""}
            href={`/jobs/${jobId}/rollouts/${rollout.id}`}
            rollout={rollout}
            advantage={rollouts[i]?.advantage}
            turns={conversations[i] ?? []}
            partsAt={turn}
            way={letters[i] ?? null}
          />
        ))}
      </div>
    </>
  );
}
