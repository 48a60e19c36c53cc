import { useEffect, useMemo } from "react";
import { Link, useLocation } from "wouter";
import { ApiError } from "../api/http";
import type { EndedRollout, RolloutDetail, RolloutQuery, RolloutSummary } from "../api/types";
import { CallsPanel } from "../components/AttemptList";
import { Group } from "../components/Group";
import { OutcomeCard } from "../components/OutcomeCard";
import { RolloutFacts } from "../components/RolloutFacts";
import { RowPanel } from "../components/RowPanel";
import { Empty, Problem, Skeleton } from "../components/State";
import { TraceTurns } from "../components/TraceTurns";
import { Trail } from "../components/Trail";
import { useAttempts, useGrading, useJob, useRollout, useSiblings } from "../data/queries";
import { callIds, toTurns } from "../lib/conversation";
import { formatFilter } from "../lib/filters";
import { readOrder } from "../lib/job_order";
import { sorted } from "../lib/ledger";
import { hasEnded, inOrder, neighbours } from "../lib/outcome";
import { toolColors, toolOrder } from "../lib/palette";

interface Props {
  jobId: string;
  traceId: string;
}

/** One rollout, message by message. */
export function RolloutPage({ jobId, traceId }: Props) {
  const rollout = useRollout(jobId, traceId);
  return (
    <>
      <Trail
        parts={[
          { label: "Jobs", href: "/" },
          { label: jobId, href: `/jobs/${jobId}` },
          { label: traceId.slice(0, 14) },
        ]}
      />
      <title>{`${traceId} · Agent RFT`}</title>
      {rollout.error && (
        <Missing jobId={jobId} traceId={traceId} error={rollout.error} onRetry={() => void rollout.refetch()} />
      )}
      {rollout.isPending && <Skeleton height={420} />}
      {rollout.data && <Found jobId={jobId} rollout={rollout.data} />}
    </>
  );
}

const NO_ATTEMPTS: never[] = [];

/** A rollout that has not ended yet has attempts and nothing else. */
function Missing({ jobId, traceId, error, onRetry }: Props & { error: Error; onRetry(): void }) {
  const attempts = useAttempts(jobId, traceId);
  const { others } = sorted(attempts.data ?? NO_ATTEMPTS, new Set());
  if (!(error instanceof ApiError && error.status === 404) || others.length === 0) {
    return <Problem error={error} onRetry={onRetry} />;
  }
  return (
    <>
      <Empty title="This rollout has not ended yet">
        <span>Its conversation is shown here once it has. These are its calls so far.</span>
        <button type="button" onClick={onRetry}>
          Look again
        </button>
      </Empty>
      <CallsPanel title="Calls" calls={others} />
    </>
  );
}

/** A rollout; or a conversation that is not over, or was abandoned, and stands in no list. */
function Found({ jobId, rollout }: { jobId: string; rollout: RolloutDetail }) {
  const next = rollout.superseded_by;
  return (
    <>
      {rollout.status === "abandoned" && (
        <Empty title="This rollout was abandoned">
          <span>It was cut off, or its step was done again. It counts nowhere.</span>
          {next && <Link href={`/jobs/${jobId}/rollouts/${next}`}>The one that took its place</Link>}
        </Empty>
      )}
      {rollout.status === "in_progress" && (
        <Empty title="This rollout has not ended yet">
          <span>Its conversation is shown here once it has.</span>
        </Empty>
      )}
      {hasEnded(rollout) ? (
        <Loaded jobId={jobId} rollout={rollout} />
      ) : (
        <BareCalls jobId={jobId} traceId={rollout.id} />
      )}
    </>
  );
}

function BareCalls({ jobId, traceId }: Props) {
  const attempts = useAttempts(jobId, traceId);
  const { others } = sorted(attempts.data ?? NO_ATTEMPTS, new Set());
  return others.length > 0 && <CallsPanel title="Calls" calls={others} />;
}

function Loaded({ jobId, rollout }: { jobId: string; rollout: EndedRollout }) {
  const job = useJob(jobId);
  const declared = job.data ? readOrder(job.data.method).tools.map((tool) => tool.name) : [];
  const colors = toolColors(toolOrder(declared, Object.keys(rollout.record.tool_calls)));
  const turns = useMemo(() => toTurns(rollout.record), [rollout.record]);
  const attempts = useAttempts(jobId, rollout.id);
  const calls = useMemo(() => sorted(attempts.data ?? NO_ATTEMPTS, callIds(turns)), [attempts.data, turns]);
  const grading = useGrading(jobId, rollout.id);
  const { list, isGroup } = useBeside(jobId, rollout);
  const hrefOf = (other: RolloutSummary) => `/jobs/${jobId}/rollouts/${other.id}`;
  const { previous, next } = neighbours(list, rollout.id);
  const before = previous && hrefOf(previous);
  const after = next && hrefOf(next);
  useArrowKeys(before, after);
  const sameStep: RolloutQuery = { split: rollout.split, step: rollout.step };
  return (
    <>
      <section className="rollout-header">
        <div className="title-row">
          <h1>
            Row {rollout.row_index} <span className="muted">#{rollout.group_index + 1}</span>
          </h1>
          <Link href={`/jobs/${jobId}${formatFilter(sameStep)}`}>
            step {rollout.step}, {rollout.split === "train" ? "train" : "validation"}
          </Link>
          <span className="spacer" />
          <Step href={before} label="← Previous" />
          <Step href={after} label="Next →" />
        </div>
        <p className="mono muted">{rollout.id}</p>
      </section>
      {attempts.error && <Problem error={attempts.error} onRetry={() => void attempts.refetch()} />}
      <div className="trace">
        <TraceTurns turns={turns} colors={colors} attempts={calls.ofModel} />
        <aside>
          <OutcomeCard rollout={rollout} />
          {grading.error && <Problem error={grading.error} onRetry={() => void grading.refetch()} />}
          {grading.data && <RowPanel grading={grading.data} />}
          <Group title={isGroup ? "Group" : "Same step"} rollouts={list} currentId={rollout.id} hrefOf={hrefOf} />
          <CallsPanel title="Grading and callbacks" calls={calls.others} />
          <RolloutFacts rollout={rollout} colors={colors} />
        </aside>
      </div>
    </>
  );
}

/** The rollout's group; for a rollout alone in its group, as most of validation, all of its step and split. */
function useBeside(jobId: string, rollout: RolloutSummary): { list: RolloutSummary[]; isGroup: boolean } {
  const { split, step, row_index } = rollout;
  const group = useSiblings(jobId, { split, step, row_index });
  const isAlone = group.data !== undefined && group.data.data.length <= 1;
  const all = useSiblings(jobId, isAlone ? { split, step } : null);
  return { list: inOrder((isAlone ? all : group).data?.data ?? []), isGroup: !isAlone };
}

function Step({ href, label }: { href: string | null; label: string }) {
  if (href === null) {
    return (
      <span className="button" aria-disabled="true">
        {label}
      </span>
    );
  }
  return (
    <Link href={href} className="button">
      {label}
    </Link>
  );
}

/** Left and right go through the rollouts, unless something else has the focus. */
function useArrowKeys(before: string | null, after: string | null): void {
  const [, navigate] = useLocation();
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.target !== document.body || event.altKey || event.ctrlKey || event.metaKey) return;
      const href = { ArrowLeft: before, ArrowRight: after }[event.key];
      if (href) navigate(href);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [before, after, navigate]);
}
