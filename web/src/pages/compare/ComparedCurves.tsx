import { useCallback, useMemo, useState } from "react";
import type { Job, JobCurvesObject } from "../../api/types";
import { Plot } from "../../components/Plot";
import { Segmented } from "../../components/Segmented";
import { useScheme } from "../../components/Chart";
import { AXES, type Axis, axisNote, placeText } from "../../lib/axes";
import { comparison, METRICS, valueAt } from "../../lib/compare";
import { plotShape, type Zoom } from "../../lib/plot";
import { fittedRange } from "../../lib/series";

export interface Compared {
  job: Job;
  name: string;
  /** Name of a custom property. */
  color: string;
  curves: JobCurvesObject;
}

const HEIGHT = 320;

/** One metric of all jobs over steps, over the rollouts that it cost, or over time. */
export function ComparedCurves({ compared }: { compared: readonly Compared[] }) {
  const [metricName, setMetric] = useState("valid");
  const [axis, setAxis] = useState<Axis>("step");
  const [cursor, setCursor] = useState<number | null>(null);
  const [zoom, setZoom] = useState<Zoom | null>(null);
  const onCursor = useCallback((at: number | null) => setCursor(at), []);
  const scheme = useScheme();
  const { chart, unit } = useMemo(
    () =>
      comparison(
        compared.map(({ job, name, curves }) => ({ id: job.id, name, startedAt: job.started_at, curves })),
        metricName,
        axis,
      ),
    [compared, metricName, axis],
  );
  const metric = METRICS.find((one) => one.value === metricName) ?? METRICS[0]!;
  const isEmpty = chart.series.every((one) => one.values.every((value) => value === null));
  return (
    <section className="panel" aria-labelledby="compared-curves">
      <header>
        <h2 id="compared-curves">Curves</h2>
        <span className="spacer" />
        {zoom !== null && (
          <button type="button" onClick={() => setZoom(null)}>
            Show all
          </button>
        )}
        <select aria-label="Metric" value={metricName} onChange={(event) => setMetric(event.target.value)}>
          {METRICS.map((one) => (
            <option key={one.value} value={one.value}>
              {one.label}
            </option>
          ))}
        </select>
        <Segmented label="Axis" options={AXES} value={axis} onChange={(next) => (setAxis(next), setZoom(null))} />
      </header>
      <figure className="compared-chart">
        <figcaption>
          <ul>
            {chart.series.map((one) => {
              const value = valueAt(one, chart.steps, cursor);
              return (
                <li key={one.key}>
                  <span className="swatch line" style={{ background: `var(${one.color})` }} />
                  <span className="muted">{one.label}</span>
                  <output>{value === null ? "–" : metric.format(value)}</output>
                </li>
              );
            })}
          </ul>
          <span className="muted small">{cursor === null ? "latest" : placeText(unit, cursor)}</span>
        </figcaption>
        {isEmpty ? (
          <div className="chart-empty" style={{ height: HEIGHT }}>
            Nothing was measured yet.
          </div>
        ) : (
          <Plot
            key={`${scheme} ${metricName} ${axis} ${unit} ${plotShape(chart)}`}
            label={`${metric.label} of ${compared.length} jobs`}
            chart={chart}
            step={cursor}
            height={HEIGHT}
            axis={metricName === "excluded" ? "percent" : undefined}
            range={metric.isReward ? fittedRange : undefined}
            zoom={zoom}
            onCursor={onCursor}
            onZoom={setZoom}
          />
        )}
        {axis !== "step" && <p className="muted small axis-unit">{axisNote(unit)}</p>}
      </figure>
    </section>
  );
}
