import { Link } from "wouter";
import { StatusBadge } from "../../components/Badge";
import { count, delta, percent, reward, span } from "../../lib/format";
import { validation } from "../../lib/job_figures";
import { elapsed, figures } from "../../lib/summary";
import type { Compared } from "./ComparedCurves";

interface Props {
  compared: readonly Compared[];
  /** Unix seconds. */
  now: number;
  onRemove(id: string): void;
}

/** What each job came to, with intervals, and what it took. */
export function ComparedFigures({ compared, now, onRemove }: Props) {
  return (
    <section className="panel" aria-labelledby="compared-figures">
      <header>
        <h2 id="compared-figures">Figures</h2>
        <span className="muted small">with 95 % intervals; final ones are measured where nothing was chosen</span>
      </header>
      <div className="scroll">
        <table className="compared-figures">
          <thead>
            <tr>
              <th>Job</th>
              <th className="spare">Status</th>
              <th className="number">Baseline</th>
              <th className="number">Reward</th>
              <th className="number">Gain</th>
              <th className="number">Best step</th>
              <th className="number">Rollouts</th>
              <th className="number">Excluded</th>
              <th className="number">Duration</th>
              <th>
                <span className="visually-hidden">Remove</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {compared.map((one) => (
              <Row key={one.job.id} {...one} now={now} onRemove={onRemove} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Row({ job, name, color, curves, now, onRemove }: Compared & Omit<Props, "compared">) {
  const told = validation(job, curves.curves);
  const sums = figures(job, curves.curves);
  const gain = job.final_figures?.gain;
  return (
    <tr>
      <td>
        <span className="swatch line" style={{ background: `var(${color})` }} />{" "}
        <Link href={`/jobs/${job.id}`}>{name}</Link>
      </td>
      <td className="spare">
        <StatusBadge job={job} />
      </td>
      <td className="number">{reward(told.from)}</td>
      <td className="number">
        <strong>{reward(told.to)}</strong>
        <Between ends={told.interval} />
        {told.to !== null && <div className="muted small">{told.isFinal ? "final" : "latest validation"}</div>}
      </td>
      <td className="number">
        {told.gain === null ? "–" : delta(told.gain)}
        <Between ends={gain ? [gain.low, gain.high] : null} isSigned />
      </td>
      <td className="number">{job.best_step ?? sums.bestStep ?? "–"}</td>
      <td className="number">{count(sums.rollouts)}</td>
      <td className="number">{sums.rollouts ? percent(sums.excluded / sums.rollouts) : "–"}</td>
      <td className="number nowrap">{job.started_at === null ? "–" : span(elapsed(job, now))}</td>
      <td className="number">
        <button
          type="button"
          className="quiet"
          aria-label={`Remove ${name} from the comparison`}
          onClick={() => onRemove(job.id)}
        >
          Remove
        </button>
      </td>
    </tr>
  );
}

function Between({ ends, isSigned = false }: { ends: [number, number] | null; isSigned?: boolean }) {
  if (ends === null) return null;
  const told = ends.map((end) => (isSigned ? delta(end) : reward(end)));
  return <div className="muted small nowrap">[{told.join(", ")}]</div>;
}
