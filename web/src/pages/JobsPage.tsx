import type { Job } from "../api/types";
import { JobRow, JobsTable } from "../components/JobsTable";
import { Preformatted } from "../components/Preformatted";
import { Empty, Problem, Skeleton } from "../components/State";
import { useNow } from "../data/clock";
import { useCurvesOf, useJobs } from "../data/queries";
import { isTerminal, NO_CURVES } from "../lib/summary";

/** All jobs, newest first. */
export function JobsPage() {
  const jobs = useJobs();
  const pages = jobs.data?.pages.map((page) => page.data) ?? [];
  const now = useNow(pages.some((page) => page.some((job) => !isTerminal(job))));
  return (
    <>
      <title>Jobs · Agent RFT</title>
      <h1>Jobs</h1>
      {jobs.error && <Problem error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.isPending && <Skeleton height={220} />}
      {jobs.data && (
        <section className="panel" aria-label="Jobs">
          {pages[0]?.length === 0 ? (
            <NoJobs />
          ) : (
            <JobsTable>
              {pages.map((page, i) => (
                <Rows key={i} jobs={page} now={now} />
              ))}
            </JobsTable>
          )}
          {jobs.hasNextPage && (
            <footer className="more">
              <button type="button" disabled={jobs.isFetchingNextPage} onClick={() => void jobs.fetchNextPage()}>
                {jobs.isFetchingNextPage ? "Loading" : "Older jobs"}
              </button>
            </footer>
          )}
        </section>
      )}
    </>
  );
}

/** The jobs of one page, whose curves come together. */
function Rows({ jobs, now }: { jobs: readonly Job[]; now: number }) {
  const curves = useCurvesOf(jobs);
  return jobs.map((job) => <JobRow key={job.id} job={job} curves={curves.data?.get(job.id) ?? NO_CURVES} now={now} />);
}

const EXAMPLE = `client = OpenAI(base_url="${location.origin}/v1", api_key="...")
client.fine_tuning.jobs.create(
    model="starter", training_file=..., validation_file=...,
    method={"type": "reinforcement", "reinforcement": {"grader": ..., "tools": ...}},
)`;

function NoJobs() {
  return (
    <Empty title="No jobs yet">
      <span>Launch one with the official SDK; it shows up here at once.</span>
      <Preformatted label="Example">{EXAMPLE}</Preformatted>
    </Empty>
  );
}
