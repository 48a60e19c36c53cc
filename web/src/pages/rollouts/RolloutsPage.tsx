import { useMemo, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import type { RolloutQuery } from "../../api/types";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { ArrivalsLine } from "../../components/Arrivals";
import { useFollowedJob } from "../../data/queries";
import { useArrivals, useRolloutList } from "../../data/rollouts";
import { formatFilter, parseFilter, unsorted } from "../../lib/filters";
import { plural } from "../../lib/format";
import { readOrder } from "../../lib/job_order";
import { isTerminal } from "../../lib/summary";
import { rememberColumns, shownColumns } from "../../lib/rollout_columns";
import { ColumnChoice } from "./ColumnChoice";
import { Filters } from "./Filters";
import { VirtualTable } from "./VirtualTable";
import "./rollouts.css";

/** A job's rollouts, however many they are; the address says which, and in which order. */
export function RolloutsPage({ jobId }: { jobId: string }) {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const query = useMemo(() => parseFilter(search), [search]);
  const job = useFollowedJob(jobId);
  const list = useRolloutList(jobId, query);
  const isActive = job.data !== undefined && !isTerminal(job.data);
  const { arrivals, show, shows } = useArrivals(jobId, query, { list, isActive });
  const [shown, setShown] = useState(() => shownColumns(localStorage));
  const rollouts = useMemo(() => list.data?.pages.flatMap((page) => page.data) ?? [], [list.data]);
  const tools = job.data ? readOrder(job.data.method).tools.map((tool) => tool.name) : [];
  const ask = (next: RolloutQuery) => navigate(path + formatFilter(next), { replace: true });
  const choose = (next: ReadonlySet<string>) => {
    rememberColumns(localStorage, next);
    setShown(next);
  };
  return (
    <>
      <title>{`Rollouts · ${jobId} · Agent RFT`}</title>
      <Trail parts={[{ label: "Jobs", href: "/" }, { label: jobId, href: `/jobs/${jobId}` }, { label: "Rollouts" }]} />
      <div className="title-row">
        <h1>Rollouts</h1>
        <span className="muted count" role="status">
          {list.data && plural(rollouts.length, "rollout") + (list.hasNextPage ? " and more" : "")}
        </span>
        <span className="spacer" />
        <span className="muted small keys">
          <kbd>j</kbd> <kbd>k</kbd> move · <kbd>Enter</kbd> opens
        </span>
        <button type="button" disabled={list.isFetching} onClick={() => void list.refetch()}>
          Look again
        </button>
        <ColumnChoice shown={shown} onChange={choose} />
      </div>
      <Filters query={query} tools={tools} onChange={ask} />
      {list.error && <Problem error={list.error} onRetry={() => void list.refetch()} />}
      {list.isPending && <Skeleton height={420} />}
      {list.data && !list.error && rollouts.length === 0 && <Nothing query={query} href={path} />}
      {rollouts.length > 0 && (isActive || arrivals.count > 0) && (
        <ArrivalsLine
          arrivals={arrivals}
          isByAge={query.sort === undefined && query.order === undefined}
          onShow={show}
        />
      )}
      {rollouts.length > 0 && !list.error && (
        <VirtualTable
          // From its top where the reader asked for what is new there.
          key={shows}
          rollouts={rollouts}
          shown={shown}
          query={query}
          isStale={list.isPlaceholderData}
          hasMore={list.hasNextPage}
          isLoadingMore={list.isFetchingNextPage}
          onMore={() => void list.fetchNextPage()}
          onSort={ask}
          hrefOf={(rollout) => `/jobs/${jobId}/rollouts/${rollout.id}${formatFilter(query)}`}
        />
      )}
    </>
  );
}

function Nothing({ query, href }: { query: RolloutQuery; href: string }) {
  const isFiltered = formatFilter(unsorted(query)) !== "";
  return (
    <section className="panel">
      <Empty title={isFiltered ? "No rollout matches" : "No rollouts yet"}>
        {isFiltered ? (
          <Link href={href}>Take all filters away</Link>
        ) : (
          <span>The first come with the baseline, before step 1.</span>
        )}
      </Empty>
    </section>
  );
}
