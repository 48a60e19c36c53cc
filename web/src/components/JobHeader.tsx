import type { ReactNode } from "react";
import type { Job } from "../api/types";
import { capitalized, dateTime, moment, span } from "../lib/format";
import { elapsed, progress } from "../lib/summary";
import { StatusBadge } from "./Badge";
import { Copy } from "./Copy";
import { ProgressBar } from "./Progress";

interface Props {
  job: Job;
  /** Unix seconds. */
  now: number;
  /** Whether the page is being fed, shown beside the status. */
  liveness: ReactNode;
  /** What can be asked of it, at the end of the title's line. */
  actions: ReactNode;
}

/** Who the job is and how far it has come. */
export function JobHeader({ job, now, liveness, actions }: Props) {
  const done = progress(job);
  const end = job.estimated_finish;
  return (
    <section className="job-header">
      <div className="title-row">
        <h1>{job.user_provided_suffix ?? job.model}</h1>
        <StatusBadge job={job} />
        {liveness}
        <span className="spacer" />
        {actions}
      </div>
      <div className="id-row muted">
        <Copy text={job.id} label="job id" />
        {job.fine_tuned_model && <Copy text={job.fine_tuned_model} label="model" />}
        <span>created {dateTime(job.created_at)}</span>
        {Object.entries(job.metadata ?? {}).map(([name, value]) => (
          <span key={name} className="tag">
            {name}: {value}
          </span>
        ))}
      </div>
      <div className="progress-row">
        <span className="nowrap">
          {done ? (
            <>
              Step <strong>{done.step}</strong> of {done.total}
            </>
          ) : (
            "No steps yet"
          )}
        </span>
        <ProgressBar progress={done} status={job.status} />
        <span className="nowrap muted">
          {job.started_at === null ? "not started" : span(elapsed(job, now))}
          {end !== null && end > now && `, about ${span(end - now)} left, done at ${moment(end, now)}`}
        </span>
      </div>
      {job.progress && (
        <p className="now muted">
          <span>{capitalized(job.progress.message)}</span>
          <span className="nowrap"> for {span(now - job.progress.since)}</span>
        </p>
      )}
    </section>
  );
}

/** Why the job failed. */
export function JobProblem({ job }: { job: Job }) {
  if (!job.error?.message) return null;
  return (
    <div className="banner" role="alert">
      <strong>{job.error.code}</strong>
      <span className="lines">
        {job.error.message}
        {job.error.param && <code className="param">{job.error.param}</code>}
      </span>
    </div>
  );
}
