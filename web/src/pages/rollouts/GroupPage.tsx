import { Fragment, useMemo, useState } from "react";
import { Link } from "wouter";
import type { Job, RolloutQuery, RolloutSummary } from "../../api/types";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useJob } from "../../data/queries";
import { useGroup } from "../../data/rollouts";
import { changed } from "../../lib/filters";
import { plural } from "../../lib/format";
import { inOrder } from "../../lib/outcome";
import { readOrder } from "../../lib/job_order";
import { advantages, byEpoch, partingOf } from "../../lib/parting";
import { SideBySide } from "./SideBySide";
import "./trace.css";

interface Props {
  jobId: string;
  split: string;
  step: string;
  row: string;
}

/** The rollouts of one row in one step, side by side by group: what each was worth, and where they part. */
export function GroupPage({ jobId, split, step, row }: Props) {
  const place: [keyof RolloutQuery, string][] = [["split", split], ["step", step], ["row_index", row]]; // prettier-ignore
  const wanted = place.reduce<RolloutQuery>((query, [name, text]) => changed(query, name, text), {});
  const group = useGroup(jobId, wanted);
  const list = useMemo(() => inOrder(group.data ?? []), [group.data]);
  const groups = useMemo(() => byEpoch(list), [list]);
  const job = useJob(jobId);
  const error = group.error ?? job.error;
  const retry = () => void Promise.all([group.refetch(), job.refetch()]);
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
      {error && <Problem error={error} onRetry={retry} />}
      {(group.isPending || job.isPending) && <Skeleton height={420} />}
      {group.data && list.length === 0 && <Empty title="There are no rollouts of this row in this step" />}
      {job.data &&
        groups.map(([epoch, rollouts]) => (
          <Fragment key={epoch}>
            {groups.length > 1 && <h2>Epoch {epoch + 1}</h2>}
            <Columns job={job.data} list={rollouts} isTrained={split === "train"} />
          </Fragment>
        ))}
    </>
  );
}

const AT_ONCE = 8;

interface ColumnsProps {
  job: Job;
  list: readonly RolloutSummary[];
  /** Else nothing was learnt from them, and they have no advantages. */
  isTrained: boolean;
}

function Columns({ job, list, isTrained }: ColumnsProps) {
  const [most, setMost] = useState(AT_ONCE);
  const isScaled = readOrder(job.method).scalesAdvantages;
  const scores = isTrained
    ? advantages(
        list.map((rollout) => rollout.reward),
        isScaled,
      )
    : null;
  const signal = scores && signalOf(scores, isScaled);
  const shown = list.slice(0, most).map((rollout, i) => ({
    id: rollout.id,
    name: `#${rollout.group_index + 1}`,
    ...(scores && { advantage: scores[i] ?? null }),
  }));
  return (
    <>
      <SideBySide
        jobId={job.id}
        rollouts={shown}
        story={(turn, ways) => `${partingOf(turn, ways, { shown: shown.length, all: list.length })} ${signal ?? ""}`}
      />
      {list.length > most && (
        <button type="button" className="show-more" onClick={() => setMost(most + AT_ONCE)}>
          Show more of this group ({list.length - most} left)
        </button>
      )}
    </>
  );
}

function signalOf(scores: readonly (number | null)[], isScaled: boolean): string {
  if (scores.every((score) => score === null)) {
    return "Its graded rewards are all equal, or fewer than two: there is nothing to learn from it.";
  }
  return `Advantages are the rewards less their mean${isScaled ? ", over their deviation" : ""}.`;
}
