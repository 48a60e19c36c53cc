import { useEffect, useMemo } from "react";
import { Link, useLocation, useSearch } from "wouter";
import type { EndedRollout, RolloutQuery, RolloutSummary } from "../../api/types";
import { CallsPanel } from "../../components/AttemptList";
import { Group } from "../../components/Group";
import { OutcomeCard } from "../../components/OutcomeCard";
import { RolloutFacts } from "../../components/RolloutFacts";
import { RowPanel } from "../../components/RowPanel";
import { Segmented } from "../../components/Segmented";
import { Problem, Skeleton } from "../../components/State";
import { useAttempts, useJob } from "../../data/queries";
import { useGrading, useGroup, useNeighbours, useSameStep } from "../../data/rollouts";
import { type CallBlock, callIds, toTurns } from "../../lib/conversation";
import { formatFilter, parseFilter, unsorted } from "../../lib/filters";
import { readOrder } from "../../lib/job_order";
import { sorted } from "../../lib/ledger";
import { inOrder } from "../../lib/outcome";
import { toolColors, toolOrder } from "../../lib/palette";
import { curl, sdkMessages } from "../../lib/trace_copy";
import { CopyText } from "./CopyText";
import { TimelinePanel } from "./TimelinePanel";
import { TokenPanel } from "./TokenPanel";
import { TraceTurns } from "./TraceTurns";
import { hashOf, useView, type View, VIEWS } from "./view";

const NO_ATTEMPTS: never[] = [];
const SPLITS: Record<RolloutSummary["split"], string> = { train: "train", valid: "validation", test: "test" };

/** A rollout that has ended: its conversation, what became of it, and the ways to those beside it. */
export function LoadedRollout({ jobId, rollout }: { jobId: string; rollout: EndedRollout }) {
  const job = useJob(jobId);
  const order = useMemo(() => (job.data ? readOrder(job.data.method) : null), [job.data]);
  const colors = toolColors(
    toolOrder(order?.tools.map((tool) => tool.name) ?? [], Object.keys(rollout.record.tool_calls)),
  );
  const turns = useMemo(() => toTurns(rollout.record), [rollout.record]);
  const attempts = useAttempts(jobId, rollout.id);
  const calls = useMemo(() => sorted(attempts.data ?? NO_ATTEMPTS, callIds(turns)), [attempts.data, turns]);
  const grading = useGrading(jobId, rollout.id);
  const { list, title, isGroup } = useBeside(jobId, rollout);
  const [view, setView] = useView();
  const curlOf = (call: CallBlock) => {
    const tool = order?.tools.find((one) => one.name === call.name);
    if (!tool?.url) return null;
    const given = { url: tool.url, headers: tool.headers, callId: call.id, name: call.name, traceId: rollout.id };
    return curl({ ...given, arguments: call.arguments, item: grading.data?.item });
  };
  const header = <Header jobId={jobId} rollout={rollout} view={view} />;
  // The timeline has a line for each endpoint: what is below must not move under the pointer when they come. Where they
  // cannot be had at once, the conversation does not wait for them.
  if (attempts.isPending && attempts.failureCount === 0) {
    return (
      <>
        {header}
        <Skeleton height={420} />
      </>
    );
  }
  return (
    <>
      {header}
      {attempts.error && <Problem error={attempts.error} onRetry={() => void attempts.refetch()} />}
      <TimelinePanel attempts={attempts.data ?? NO_ATTEMPTS} record={rollout.record} />
      <div className="trace">
        <div>
          <div className="trace-view">
            <Segmented label="View" options={VIEWS} value={view} onChange={setView} />
          </div>
          {view === "tokens" ? (
            <TokenPanel key={rollout.id} jobId={jobId} traceId={rollout.id} />
          ) : (
            <TraceTurns turns={turns} colors={colors} attempts={calls.ofModel} curlOf={curlOf} />
          )}
        </div>
        <aside>
          <OutcomeCard rollout={rollout} />
          {grading.error && <Problem error={grading.error} onRetry={() => void grading.refetch()} />}
          {grading.data && <RowPanel grading={grading.data} />}
          <Group
            title={title}
            rollouts={list}
            currentId={rollout.id}
            hrefOf={(other) => `/jobs/${jobId}/rollouts/${other.id}`}
          />
          {isGroup && list.length > 1 && (
            <Link
              className="button"
              href={`/jobs/${jobId}/groups/${rollout.split}/${rollout.step}/${rollout.row_index}`}
            >
              The group side by side
            </Link>
          )}
          <CallsPanel title="Grading and callbacks" calls={calls.others} />
          <RolloutFacts rollout={rollout} colors={colors} />
        </aside>
      </div>
    </>
  );
}

function Header({ jobId, rollout, view }: { jobId: string; rollout: EndedRollout; view: View }) {
  const search = useSearch();
  const query = useMemo(() => parseFilter(search), [search]);
  const address = formatFilter(query);
  const isFiltered = formatFilter(unsorted(query)) !== "";
  const neighbours = useNeighbours(jobId, rollout, query);
  const hrefOf = (other: RolloutSummary | null | undefined) =>
    other ? `/jobs/${jobId}/rollouts/${other.id}${address}${hashOf(view)}` : null;
  const before = hrefOf(neighbours.data?.previous);
  const after = hrefOf(neighbours.data?.next);
  useKeys(before, after);
  const sameStep: RolloutQuery = { split: rollout.split, step: rollout.step };
  const { messages } = rollout.record;
  return (
    <section className="rollout-header">
      <div className="title-row">
        <h1>
          Row {rollout.row_index} <span className="muted">#{rollout.group_index + 1}</span>
        </h1>
        <Link href={`/jobs/${jobId}/rollouts${formatFilter(sameStep)}`}>
          step {rollout.step}, {SPLITS[rollout.split]}
        </Link>
        <Link href={`/jobs/${jobId}/rollouts${address}`}>
          {isFiltered ? "back to the filtered list" : "all rollouts"}
        </Link>
        <span className="spacer" />
        <Step href={before} label="← Previous" />
        <Step href={after} label="Next →" />
      </div>
      <div className="title-row">
        <span className="mono muted">{rollout.id}</span>
        <span className="spacer" />
        <span className="muted small">Copy as</span>
        <CopyText textOf={() => JSON.stringify(rollout, null, 2)} label="Copy the rollout as JSON" shown="JSON" />
        <CopyText
          textOf={() => JSON.stringify(sdkMessages(messages), null, 2)}
          label="Copy the conversation as SDK messages"
          shown="SDK messages"
        />
      </div>
      {neighbours.error && <Problem error={neighbours.error} onRetry={() => void neighbours.refetch()} />}
    </section>
  );
}

interface Beside {
  list: RolloutSummary[];
  title: string;
  isGroup: boolean;
}

/** The rollout's group; for a rollout alone in its group, as most of validation, those of its step and split. */
function useBeside(jobId: string, rollout: RolloutSummary): Beside {
  const { split, step, row_index, epoch } = rollout;
  const row = useGroup(jobId, { split, step, row_index });
  // Until its own have come, those of the rollout before stay.
  const group = row.isPlaceholderData ? row.data : row.data?.filter((other) => other.epoch === epoch);
  const isAlone = group !== undefined && group.length <= 1;
  const { data: page } = useSameStep(jobId, isAlone ? { split, step } : null);
  if (!isAlone) return { list: inOrder(group ?? []), title: "Group", isGroup: true };
  const title = page?.has_more ? `Same step, the newest ${page.data.length}` : "Same step";
  return { list: inOrder(page?.data ?? []), title, isGroup: false };
}

function Step({ href, label }: { href: string | null; label: string }) {
  if (href !== null) {
    return (
      <Link href={href} className="button">
        {label}
      </Link>
    );
  }
  return (
    <span className="button" aria-disabled="true">
      {label}
    </span>
  );
}

/** Left and right, k and j go through the list, unless something else has the focus. */
function useKeys(before: string | null, after: string | null): void {
  const [, navigate] = useLocation();
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.target !== document.body || event.altKey || event.ctrlKey || event.metaKey) return;
      const href = { ArrowLeft: before, k: before, ArrowRight: after, j: after }[event.key];
      if (href) navigate(href);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [before, after, navigate]);
}
