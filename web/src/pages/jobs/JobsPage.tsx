import { useCallback, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import type { Job } from "../../api/types";
import { COLUMNS, JobRow, JobsTable } from "../../components/JobsTable";
import { JobsToolbar } from "../../components/JobsToolbar";
import { Preformatted } from "../../components/Preformatted";
import { Empty, Problem, Skeleton } from "../../components/State";
import { useNow } from "../../data/clock";
import { useCurvesOf, useJobs } from "../../data/queries";
import {
  compareAddress,
  EVERY_JOB,
  formatJobSearch,
  type JobSearch,
  MOST_COMPARED,
  parseJobSearch,
  toggled,
  toJobQuery,
} from "../../lib/job_search";
import { isTerminal, NO_CURVES } from "../../lib/summary";
import "./jobs.css";

/** All jobs, newest first, or those that are searched for. */
export function JobsPage() {
  const [path, navigate] = useLocation();
  const wanted = parseJobSearch(useSearch());
  const onChange = useCallback(
    (next: JobSearch) => navigate(path + formatJobSearch(next), { replace: true }),
    [navigate, path],
  );
  const [chosen, setChosen] = useState<string[]>([]);
  const onChoose = useCallback((id: string) => setChosen((before) => toggled(before, id)), []);
  const jobs = useJobs(toJobQuery(wanted));
  const pages = jobs.data?.pages.map((page) => page.data) ?? [];
  const now = useNow(pages.some((page) => page.some((job) => !isTerminal(job))));
  const isEmpty = jobs.data !== undefined && pages[0]?.length === 0;
  const isWhole = formatJobSearch(wanted) === "";
  return (
    <>
      <title>Jobs · Agent RFT</title>
      <div className="title-row">
        <h1>Jobs</h1>
        <span className="spacer" />
        <Link href="/new" className="button primary">
          New job
        </Link>
      </div>
      {jobs.error && <Problem error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.isPending && <Skeleton height={220} />}
      {jobs.data && (
        <section className="panel" aria-label="Jobs">
          {!(isEmpty && isWhole) && (
            <header>
              <JobsToolbar wanted={wanted} onChange={onChange} />
              <span className="spacer" />
              <Chosen chosen={chosen} onClear={() => setChosen([])} />
            </header>
          )}
          {isEmpty ? (
            isWhole ? (
              <NoJobs />
            ) : (
              <NoneSuch onAll={() => onChange(EVERY_JOB)} />
            )
          ) : (
            <JobsTable>
              {pages.map((page, i) => (
                <Rows key={i} jobs={page} now={now} chosen={chosen} onChoose={onChoose} />
              ))}
            </JobsTable>
          )}
          {jobs.hasNextPage && (
            <footer className="more">
              <button type="button" disabled={jobs.isFetchingNextPage} onClick={() => void jobs.fetchNextPage()}>
                {jobs.isFetchingNextPage ? "Loading" : wanted.sort === EVERY_JOB.sort ? "Older jobs" : "More jobs"}
              </button>
            </footer>
          )}
        </section>
      )}
    </>
  );
}

interface RowsProps {
  jobs: readonly Job[];
  now: number;
  chosen: readonly string[];
  onChoose(id: string): void;
}

/** The jobs of one page, whose curves come together. */
function Rows({ jobs, now, chosen, onChoose }: RowsProps) {
  const curves = useCurvesOf(jobs);
  return (
    <>
      {curves.error && (
        <tr>
          <td colSpan={COLUMNS}>
            <Problem error={curves.error} onRetry={() => void curves.refetch()} />
          </td>
        </tr>
      )}
      {jobs.map((job) => (
        <JobRow
          key={job.id}
          job={job}
          curves={curves.data?.get(job.id) ?? NO_CURVES}
          // Of a job that is over nothing changes by the second.
          now={isTerminal(job) ? now - (now % 60) : now}
          isChosen={chosen.includes(job.id)}
          onChoose={onChoose}
        />
      ))}
    </>
  );
}

/** What was chosen to be compared, and the way there. */
function Chosen({ chosen, onClear }: { chosen: readonly string[]; onClear(): void }) {
  if (chosen.length === 0) return <span className="muted small spare">Choose jobs to compare them</span>;
  return (
    <span className="chosen spare" role="status">
      <span className="muted small">
        {chosen.length} chosen{chosen.length === MOST_COMPARED && ", as many as can be compared"}
      </span>
      <button type="button" className="quiet" onClick={onClear}>
        Clear
      </button>
      {chosen.length > 1 && (
        <Link href={compareAddress(chosen)} className="button">
          Compare {chosen.length} jobs
        </Link>
      )}
    </span>
  );
}

const EXAMPLE = `client = OpenAI(base_url="${location.origin}/v1", api_key="...")
client.fine_tuning.jobs.create(
    model="starter", training_file=..., validation_file=...,
    method={"type": "reinforcement", "reinforcement": {"grader": ..., "tools": ...}},
)`;

function NoJobs() {
  return (
    <Empty title="No jobs yet">
      <span>
        <Link href="/new">Order one here</Link>, or launch one with the official SDK; it shows up here at once.
      </span>
      <Preformatted label="Example">{EXAMPLE}</Preformatted>
    </Empty>
  );
}

function NoneSuch({ onAll }: { onAll(): void }) {
  return (
    <Empty title="No job is like that">
      <button type="button" onClick={onAll}>
        Show all jobs
      </button>
    </Empty>
  );
}
