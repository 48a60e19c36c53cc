import { memo, type ReactNode } from "react";
import { Link } from "wouter";
import type { Job } from "../api/types";
import { alarmsOf } from "../lib/alarms";
import { ago, count, dateTime, delta, percent, reward, span } from "../lib/format";
import { validation, type Validation } from "../lib/job_figures";
import { type JobCurves, elapsed, figures, isTerminal, progress } from "../lib/summary";
import { AlarmMark } from "./Alarms";
import { StatusBadge } from "./Badge";
import { ProgressBar } from "./Progress";
import { Sparkline } from "./Sparkline";

/** So many columns there are. */
export const COLUMNS = 11;

/** Heads of the list; its rows are `JobRow`s. */
export function JobsTable({ children }: { children: ReactNode }) {
  return (
    <div className="scroll">
      <table className="jobs">
        <thead>
          <tr>
            <th className="spare choice">
              <span className="visually-hidden">Compare</span>
            </th>
            <th>Job</th>
            <th>Status</th>
            <th className="spare">Model</th>
            <th>Progress</th>
            <th className="spare">Train reward</th>
            <th
              className="number"
              title="Of the untrained policy, and of the latest or final one with its 95 % interval"
            >
              Validation reward
            </th>
            <th className="number spare" title="Rollouts that start at once at each step">
              Burst
            </th>
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
  /** Whether it is to be compared. */
  isChosen: boolean;
  onChoose(id: string): void;
}

/** One job of the list; drawn anew only where it changed, as there may be hundreds. */
export const JobRow = memo(function JobRow({ job, curves, now, isChosen, onChoose }: Props) {
  const done = progress(job);
  const sums = figures(job, curves);
  const name = job.user_provided_suffix ?? job.id;
  const sparkline = {
    train: curves.data.map((step) => step.record.train?.reward_mean ?? null),
    valid: curves.data.map((step) => step.record.valid?.reward_mean ?? null),
  };
  return (
    <tr className="clickable">
      <td className="spare choice">
        <label>
          <input type="checkbox" aria-label={`Compare ${name}`} checked={isChosen} onChange={() => onChoose(job.id)} />
        </label>
      </td>
      <td className="job-name">
        <Link href={`/jobs/${job.id}`} className={job.user_provided_suffix ? "row-link" : "row-link mono"}>
          {name}
        </Link>
        {job.user_provided_suffix && <div className="muted small mono">{job.id}</div>}
      </td>
      <td>
        <div className="status-line">
          <StatusBadge job={job} /> <AlarmMark alarms={alarmsOf(job, curves, now)} />
        </div>
        {job.hold && (
          <div className="waits-for muted small" title={job.hold.reason}>
            {job.hold.endpoint}
          </div>
        )}
      </td>
      <td className="model spare" title={job.model}>
        {job.model}
      </td>
      <td className="progress-cell">
        <span className="nowrap">{done ? `${done.step} / ${done.total}` : isTerminal(job) ? "–" : "not started"}</span>
        <ProgressBar progress={done} status={job.status} />
      </td>
      <td className="spare train-cell">
        <Sparkline {...sparkline} />
        <span>{reward(sums.latestTrain)}</span>
      </td>
      <td className="number">
        <FromTo told={validation(job, curves)} />
      </td>
      <td className="number spare">{count(job.resolved_hyperparameters?.burst)}</td>
      <td className="number spare">{sums.rollouts ? percent(sums.excluded / sums.rollouts) : "–"}</td>
      <td className="number nowrap spare">{job.started_at === null ? "–" : span(elapsed(job, now))}</td>
      <td className="number nowrap muted spare" title={dateTime(job.created_at)}>
        {ago(job.created_at, now)}
      </td>
    </tr>
  );
});

/** `0.312 → 0.850 +0.538`, and the interval of the second below. */
function FromTo({ told }: { told: Validation }) {
  const { from, to, interval, gain, isFinal } = told;
  const tone = gain === null || gain === 0 ? "muted" : gain > 0 ? "good" : "bad";
  if (to === null) return <span className="nowrap">{reward(from)}</span>;
  return (
    <div className="from-to">
      <span className="nowrap">
        <span className="muted from">{reward(from)} → </span>
        <strong>{reward(to)}</strong>
        <span className={`gain small ${tone}`}>{gain === null ? "" : delta(gain)}</span>
      </span>
      {interval && (
        <span className="muted small nowrap interval" title="95 % interval">
          {isFinal && "final "}[{reward(interval[0])}, {reward(interval[1])}]
        </span>
      )}
    </div>
  );
}
