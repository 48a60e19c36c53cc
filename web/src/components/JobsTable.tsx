import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Job } from "../api/types";
import { ago, dateTime, delta, percent, reward, span } from "../lib/format";
import { type JobCurves, difference, elapsed, figures, isTerminal, progress } from "../lib/summary";
import { StatusBadge } from "./Badge";
import { ProgressBar } from "./Progress";
import { Sparkline } from "./Sparkline";

/** Heads of the list; its rows are `JobRow`s. */
export function JobsTable({ children }: { children: ReactNode }) {
  return (
    <div className="scroll">
      <table className="jobs">
        <thead>
          <tr>
            <th>Job</th>
            <th>Status</th>
            <th className="spare">Model</th>
            <th>Progress</th>
            <th className="spare">
              <span className="visually-hidden">Reward so far</span>
            </th>
            <th className="number spare">Train reward</th>
            <th className="number">Validation reward</th>
            <th className="number spare">Excluded</th>
            <th className="number spare">Duration</th>
            <th className="number spare">Created</th>
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

interface Props {
  job: Job;
  curves: JobCurves;
  /** Unix seconds. */
  now: number;
}

/** One job of the list. */
export function JobRow({ job, curves, now }: Props) {
  const done = progress(job);
  const sums = figures(curves);
  const sparkline = {
    train: curves.data.map((step) => step.record.train?.reward_mean ?? null),
    valid: curves.data.map((step) => step.record.valid?.reward_mean ?? null),
  };
  return (
    <tr className="clickable">
      <td>
        <Link href={`/jobs/${job.id}`} className="mono row-link">
          {job.id}
        </Link>
        {job.user_provided_suffix && <div className="muted small">{job.user_provided_suffix}</div>}
      </td>
      <td>
        <StatusBadge job={job} />
        {job.hold && (
          <div className="waits-for muted small" title={job.hold.reason}>
            {job.hold.endpoint}
          </div>
        )}
      </td>
      <td className="model spare">{job.model}</td>
      <td className="progress-cell">
        <span className="nowrap">{done ? `${done.step} / ${done.total}` : isTerminal(job) ? "–" : "not started"}</span>
        <ProgressBar progress={done} status={job.status} />
      </td>
      <td className="spare">
        <Sparkline {...sparkline} />
      </td>
      <td className="number spare">{reward(sums.latestTrain)}</td>
      <td className="number">
        <strong>{reward(sums.latestValid)}</strong>
        <Gain value={sums.bestStep === null ? null : difference(sums.latestValid, sums.baseline?.reward_mean)} />
      </td>
      <td className="number spare">{sums.rollouts ? percent(sums.excluded / sums.rollouts) : "–"}</td>
      <td className="number nowrap spare">{job.started_at === null ? "–" : span(elapsed(job, now))}</td>
      <td className="number nowrap muted spare" title={dateTime(job.created_at)}>
        {ago(job.created_at, now)}
      </td>
    </tr>
  );
}

/** Against the baseline, in a place of its own so that the rewards stay in line. */
function Gain({ value }: { value: number | null }) {
  const tone = value === null || value === 0 ? "muted" : value > 0 ? "good" : "bad";
  return <span className={`gain small ${tone}`}>{value === null ? "" : delta(value)}</span>;
}
