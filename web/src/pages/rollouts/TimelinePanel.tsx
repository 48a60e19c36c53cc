import type { Attempt, RolloutRecord } from "../../api/types";
import { count, duration } from "../../lib/format";
import { type Bar, type Lane, timeline } from "../../lib/timeline";

const KINDS: [Bar["kind"], string][] = [
  ["sampling", "sampling"],
  ["queued", "queued"],
  ["tool", "tool"],
  ["grading", "grading"],
  ["failed", "failed attempt"],
];

/** When its turns and its calls were, each endpoint on a line of its own. */
export function TimelinePanel({ attempts, record }: { attempts: readonly Attempt[]; record: RolloutRecord }) {
  const made = timeline(attempts, record);
  if (made === null) return null;
  const share = (from: number, to: number) => ({
    left: `${(from / made.seconds) * 100}%`,
    width: `${Math.max(0.3, ((to - from) / made.seconds) * 100)}%`,
  });
  return (
    <section className="panel timeline" aria-label="Timeline">
      <header>
        <h2>Timeline</h2>
        <span className="muted small">{duration(made.seconds)}</span>
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
        {made.lanes.map((lane) => (
          <LaneRow key={lane.label} lane={lane} share={share} />
        ))}
      </div>
      {made.leftOut > 0 && <p className="muted small">{count(made.leftOut)} more turns and attempts are not drawn.</p>}
    </section>
  );
}

function LaneRow({ lane, share }: { lane: Lane; share(from: number, to: number): { left: string; width: string } }) {
  return (
    <>
      <span className="mono small">{lane.label}</span>
      <div className="lane" role="img" aria-label={`${lane.label}: ${count(lane.bars.length)} spans`}>
        {lane.bars.map((bar) => (
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
