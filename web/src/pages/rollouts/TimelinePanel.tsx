import type { Attempt, RolloutRecord } from "../../api/types";
import { count, duration } from "../../lib/format";
import { type Bar, timeline } from "../../lib/timeline";

const KINDS: [Bar["kind"], string][] = [
  ["queued", "queued"],
  ["tool", "tool"],
  ["grading", "grading"],
  ["failed", "failed attempt"],
];

/** When its calls were, each endpoint on a line of its own. */
export function TimelinePanel({ attempts, record }: { attempts: readonly Attempt[]; record: RolloutRecord }) {
  const made = timeline(attempts);
  if (made === null) return null;
  const share = (from: number, to: number) => ({
    left: `${(from / made.seconds) * 100}%`,
    width: `${Math.max(0.3, ((to - from) / made.seconds) * 100)}%`,
  });
  return (
    <section className="panel timeline" aria-label="Timeline">
      <header>
        <h2>Timeline</h2>
        <span className="muted small">{duration(made.seconds)} from its first call to the end of the last</span>
        <span className="spacer" />
        <span className="legend small">
          {KINDS.map(([kind, label]) => (
            <span key={kind}>
              <span className={`swatch bar-${kind}`} /> {label}
            </span>
          ))}
        </span>
      </header>
      <div className="lanes">
        <span className="muted small">sampling or waiting</span>
        <div className="lane" aria-hidden="true">
          {made.between.map((gap) => (
            <span key={gap.from} className="bar bar-between" style={share(gap.from, gap.to)} />
          ))}
        </div>
        {made.lanes.map((lane) => (
          <Lane key={lane.label} label={lane.label} bars={lane.bars} share={share} />
        ))}
      </div>
      <p className="muted small">
        Turns have no times of their own: in sum {duration(record.sampling_s)} of sampling, part of it before the first
        call. {made.leftOut > 0 && `The first ${count(attempts.length - made.leftOut)} attempts are drawn.`}
      </p>
    </section>
  );
}

interface LaneProps {
  label: string;
  bars: readonly Bar[];
  share(from: number, to: number): { left: string; width: string };
}

function Lane({ label, bars, share }: LaneProps) {
  return (
    <>
      <span className="mono small">{label}</span>
      <div className="lane" role="img" aria-label={`${bars.length} parts of calls to ${label}`}>
        {bars.map((bar) => (
          <span
            key={bar.id}
            className={`bar bar-${bar.kind}`}
            style={share(bar.from, bar.to)}
            title={`${bar.label}, ${duration(bar.to - bar.from)}`}
          />
        ))}
      </div>
    </>
  );
}
