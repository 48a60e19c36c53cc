import { Link, useLocation } from "wouter";
import type { Condition } from "../api/types";
import { useCondition } from "../data/condition";
import { useNow } from "../data/clock";
import { fileSize, moment } from "../lib/format";

/** What stands above every page when something is wrong with the platform itself, and what to do. */
export function ConditionBars() {
  const { condition, outage, seenAt, isTrying, retry } = useCondition();
  const [path] = useLocation();
  // A job's own page has all of it.
  const isElsewhere = (job: { id: string }) => path !== `/jobs/${job.id}`;
  const held = condition?.held_jobs.filter(isElsewhere) ?? [];
  const paused = condition?.platform_paused_jobs.filter(isElsewhere) ?? [];
  const now = useNow(outage !== null || held.length + paused.length > 0);
  return (
    <div className="condition-bars" role="status">
      {outage && (
        <div className="banner">
          <strong>{outage.status === 0 ? "The platform is gone" : "The platform answers with an error"}</strong>
          <span>
            {outage.message}
            {seenAt > 0 && ` What is shown is as it was at ${moment(seenAt / 1000, now)}.`} It is tried again every few
            seconds: look whether <code>rft up</code>, or the API's process, still runs
            {outage.status > 0 && ", and its database"}.
          </span>
          <span className="spacer" />
          <button type="button" disabled={isTrying} onClick={retry}>
            Try now
          </button>
        </div>
      )}
      {condition?.disk?.is_full && <DiskFull disk={condition.disk} />}
      {/* The list of jobs says it beside each. */}
      {!outage && condition && path !== "/" && (
        <>
          <Stopped
            jobs={paused.map((job) => ({
              ...job,
              why: `has stood still since ${moment(job.pause_reason.since, now)}; its page says why`,
            }))}
            more={condition.platform_paused_jobs_left_out}
            title={(count) => (count === 1 ? "The platform paused a job" : `The platform paused ${count} jobs`)}
          />
          <Stopped
            jobs={held.map((job) => ({
              ...job,
              why: `has waited for ${job.hold.endpoint} since ${moment(job.hold.since, now)}`,
            }))}
            more={condition.held_jobs_left_out}
            title={(count) => (count === 1 ? "A job is held" : `${count} jobs are held`)}
          />
        </>
      )}
    </div>
  );
}

function DiskFull({ disk }: { disk: NonNullable<Condition["disk"]> }) {
  return (
    <div className="banner">
      <strong>The disk is full</strong>
      <span>
        {fileSize(disk.free_bytes)} are free on the platform's host, {fileSize(disk.least_bytes)} must be before a job
        goes on. Nothing is lost: jobs wait and go on by themselves. Delete files or models that nobody needs, or make
        room on the host.
      </span>
    </div>
  );
}

interface StoppedProps {
  jobs: readonly { id: string; name: string | null; why: string }[];
  more: number;
  title(count: number): string;
}

function Stopped({ jobs, more, title }: StoppedProps) {
  if (jobs.length === 0) return null;
  return (
    <div className="banner warn">
      <strong>{title(jobs.length + more)}</strong>
      <ul>
        {jobs.map((job) => (
          <li key={job.id}>
            <Link href={`/jobs/${job.id}`}>{job.name ?? job.id}</Link> {job.why}
          </li>
        ))}
        {more > 0 && (
          <li>
            <Link href="/">and {more} more</Link>
          </li>
        )}
      </ul>
    </div>
  );
}
