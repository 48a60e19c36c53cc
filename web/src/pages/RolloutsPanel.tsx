import { useMemo } from "react";
import { Link, useLocation, useSearch } from "wouter";
import type { RolloutSummary } from "../api/types";
import { RolloutFilter } from "../components/RolloutFilter";
import { RolloutsTable } from "../components/RolloutsTable";
import { Empty, Problem, Skeleton } from "../components/State";
import { ArrivalsLine } from "../components/Arrivals";
import { useArrivals, useRolloutList } from "../data/rollouts";
import { parseAxis, withAxis } from "../lib/axes";
import { formatFilter, parseFilter } from "../lib/filters";

const PER_PAGE = 25;

/** Which rollouts the address asks for, and the list of them. A page asks before it knows its job: nothing waits. */
export function useListedRollouts(jobId: string) {
  const search = useSearch();
  const filter = useMemo(() => parseFilter(search), [search]);
  return { filter, list: useRolloutList(jobId, filter, PER_PAGE) };
}

interface Props {
  jobId: string;
  isActive: boolean;
  listed: ReturnType<typeof useListedRollouts>;
}

/** The rollouts of a job, filtered by what the address says. */
export function RolloutsPanel({ jobId, isActive, listed: { filter, list: rollouts } }: Props) {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const { arrivals, show } = useArrivals(jobId, filter, { list: rollouts, isActive, perPage: PER_PAGE, isFed: true });
  const isFiltered = formatFilter(filter) !== "";
  const list = rollouts.data?.pages.flatMap((page) => page.data) ?? [];
  const hrefOf = (rollout: RolloutSummary) => `/jobs/${jobId}/rollouts/${rollout.id}${formatFilter(filter)}`;
  return (
    <section className="panel" aria-labelledby="rollouts">
      <header>
        <h2 id="rollouts">Rollouts</h2>
        <Link href={`/jobs/${jobId}/rollouts${formatFilter(filter)}`}>search and sort all</Link>
        <Link href={`/jobs/${jobId}/variance`}>which rows teach</Link>
        <Link href={`/jobs/${jobId}/change`}>what the policy does otherwise</Link>
        <span className="spacer" />
        <RolloutFilter
          filter={filter}
          onChange={(next) => navigate(path + withAxis(formatFilter(next), parseAxis(search)), { replace: true })}
        />
      </header>
      {rollouts.error && <Problem error={rollouts.error} onRetry={() => void rollouts.refetch()} />}
      {rollouts.isPending && <Skeleton height={160} />}
      {rollouts.data && list.length === 0 && (
        <Empty title={isFiltered ? "No rollout matches" : "No rollouts yet"}>
          {isFiltered && "Take a filter away to see more."}
        </Empty>
      )}
      {list.length > 0 && (isActive || arrivals.count > 0) && (
        <ArrivalsLine arrivals={arrivals} isByAge onShow={show} />
      )}
      {list.length > 0 && <RolloutsTable rollouts={list} hrefOf={hrefOf} />}
      {rollouts.hasNextPage && (
        <footer className="more">
          <button type="button" disabled={rollouts.isFetchingNextPage} onClick={() => void rollouts.fetchNextPage()}>
            {rollouts.isFetchingNextPage ? "Loading" : "Load more"}
          </button>
        </footer>
      )}
    </section>
  );
}
