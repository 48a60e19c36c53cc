import type { Job } from "../api/types";
import { JobRow, JobsTable } from "../components/JobsTable";
import { Preformatted } from "../components/Preformatted";
import { Shell } from "../components/Shell";
import { Empty, Problem, Skeleton } from "../components/State";
import { useNow } from "../data/clock";
import { useCurvesOf, useJobs } from "../data/queries";
import { useSession } from "../data/session";
import { plural } from "../lib/format";
import { isTerminal, NO_CURVES } from "../lib/summary";

/** All jobs, newest first. */
export function JobsPage() {
  const { signOut } = useSession();
  const jobs = useJobs();
  const list = jobs.data?.data ?? [];
  const now = useNow(list.some((job) => !isTerminal(job)));
  return (
    <Shell onSignOut={signOut}>
      <title>Jobs · Agent RFT</title>
      <h1>Jobs</h1>
      {jobs.error && <Problem error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.isPending && <Skeleton height={220} />}
      {jobs.data && (
        <section className="panel" aria-label="Jobs">
          {list.length === 0 ? (
            <NoJobs />
          ) : (
            <JobsTable>
              {list.map((job) => (
                <LiveRow key={job.id} job={job} now={now} />
              ))}
            </JobsTable>
          )}
        </section>
      )}
      {jobs.data?.has_more && <p className="muted">Only the newest {plural(list.length, "job")} are shown.</p>}
    </Shell>
  );
}

function LiveRow({ job, now }: { job: Job; now: number }) {
  const curves = useCurvesOf(job);
  return <JobRow job={job} curves={curves.data ?? NO_CURVES} now={now} />;
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
