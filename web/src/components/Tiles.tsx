import type { ReactNode } from "react";
import type { Job, RolloutStats } from "../api/types";
import { compact, count, delta, percent, reward } from "../lib/format";
import { besideBaseline, difference, figures, type JobCurves } from "../lib/summary";

/** The handful of numbers that say whether it works: best against baseline. */
export function Tiles({ job, curves }: { job: Job; curves: JobCurves }) {
  const { baseline, best, bestStep, latestTrain, latestTrainStep, rollouts, excluded } = figures(job, curves);
  const final = job.final_figures;
  const gain = difference(best?.reward_mean, baseline?.reward_mean);
  return (
    <dl className="tiles">
      <Tile label="Baseline" value={reward(baseline?.reward_mean)} note={noted("validation, step 0", baseline)} />
      <Tile
        label="Best validation"
        value={reward(best?.reward_mean)}
        note={bestStep === null ? "no evaluation after step 0 yet" : noted(`step ${bestStep}`, best)}
        change={gain === null ? null : <Change value={gain} text={delta(gain)} />}
      />
      {final?.reward && (
        <Tile
          label="Final"
          value={reward(final.reward.mean)}
          note={`${final.rows === "test" ? "test rows" : "validation rows, fresh seeds"}, 95 %: ${reward(final.reward.low)} to ${reward(final.reward.high)}`}
          change={final.gain ? <Change value={provenGain(final.gain)} text={delta(final.gain.difference)} /> : null}
        />
      )}
      <Tile
        label="Train reward"
        value={reward(latestTrain)}
        note={latestTrainStep === null ? "none yet" : `step ${latestTrainStep}`}
      />
      <ChangeTile label="Tool calls per rollout" now={best?.tool_calls_mean} before={baseline?.tool_calls_mean} />
      <ChangeTile
        label="Tokens per rollout"
        now={best?.completion_tokens_mean}
        before={baseline?.completion_tokens_mean}
      />
      <Tile
        label="Excluded rollouts"
        value={rollouts ? percent(excluded / rollouts) : "–"}
        note={rollouts ? `${count(excluded)} of ${count(rollouts)}` : "none yet"}
      />
    </dl>
  );
}

/** 0 where chance explains it. */
function provenGain(gain: { difference: number; low: number; high: number }): number {
  return gain.low > 0 || gain.high < 0 ? gain.difference : 0;
}

/** With the interval of the mean. */
function noted(note: string, stats: RolloutStats | null): string {
  const { reward_low: low, reward_high: high } = stats ?? {};
  return low == null || high == null ? note : `${note}, 95 %: ${reward(low)} to ${reward(high)}`;
}

interface TileProps {
  label: string;
  value: string;
  note: string;
  change?: ReactNode;
}

function Tile({ label, value, note, change }: TileProps) {
  return (
    <div className="tile">
      <dt>{label}</dt>
      <dd>
        <span className="value">{value}</span>
        {change}
      </dd>
      <dd className="note">{note}</dd>
    </div>
  );
}

function ChangeTile({
  label,
  now,
  before,
}: {
  label: string;
  now: number | null | undefined;
  before: number | null | undefined;
}) {
  const { value, note, change } = besideBaseline(now, before);
  return (
    <Tile
      label={label}
      value={compact(value)}
      note={note}
      change={
        change === null ? null : (
          <span className="change muted">
            {change > 0 ? "+" : ""}
            {percent(change)}
          </span>
        )
      }
    />
  );
}

function Change({ value, text }: { value: number; text: string }) {
  return <span className={`change ${value > 0 ? "good" : value < 0 ? "bad" : "muted"}`}>{text}</span>;
}
