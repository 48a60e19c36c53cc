import { Link, useLocation } from "wouter";
import type { Condition } from "../api/types";
import { useCondition } from "../data/condition";
import { useNow } from "../data/clock";
import { fileSize, moment } from "../lib/format";

/** What stands above every page when something is wrong with the platform itself, and what to do. */
export function ConditionBars() {
  const { condition, outage, seenAt, isTrying, retry } = useCondition();
  const [path] = useLocation();
  // A held job's own page has all of it.
  const held = condition?.held_jobs.filter((job) => path !== `/jobs/${job.id}`) ?? [];
  const now = useNow(outage !== null || held.length > 0);
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
      {!outage && condition && held.length > 0 && (
        <Held held={held} now={now} more={condition.held_jobs_left_out} isQuiet={path === "/"} />
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

interface HeldProps {
  held: Condition["held_jobs"];
  /** Unix seconds. */
  now: number;
  more: number;
  /** The list of jobs says it beside each. */
  isQuiet: boolean;
}

function Held({ held, now, more, isQuiet }: HeldProps) {
  if (isQuiet) return null;
  return (
    <div className="banner warn">
      <strong>{held.length + more === 1 ? "A job is held" : `${held.length + more} jobs are held`}</strong>
      <ul>
        {held.map((job) => (
          <li key={job.id}>
            <Link href={`/jobs/${job.id}`}>{job.name ?? job.id}</Link> has waited for {job.hold.endpoint} since{" "}
            {moment(job.hold.since, now)}
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
