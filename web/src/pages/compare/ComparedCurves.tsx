import { useCallback, useMemo, useRef, useState } from "react";
import type { Job, JobCurvesObject } from "../../api/types";
import { ChartFiles } from "../../components/ChartFiles";
import { Plot } from "../../components/Plot";
import { Segmented } from "../../components/Segmented";
import { useScheme } from "../../components/Chart";
import { AXES, type Axis, axisNote, placeText } from "../../lib/axes";
import { comparison, type Drawing, METRICS, valueAt } from "../../lib/compare";
import { plotShape, type Zoom } from "../../lib/plot";
import { fittedRange } from "../../lib/series";
import "../../components/form.css";

export interface Compared {
  job: Job;
  name: string;
  /** Name of a custom property. */
  color: string;
  curves: JobCurvesObject;
}

const HEIGHT = 320;
const SMOOTHINGS = [
  { value: "plain", label: "As measured" },
  { value: "smooth", label: "Smoothed" },
] as const;

/** One metric of all jobs over steps, over the rollouts that it cost, or over time. */
export function ComparedCurves({ compared }: { compared: readonly Compared[] }) {
  const [metricName, setMetric] = useState("valid");
  const [axis, setAxis] = useState<Axis>("step");
  const [drawing, setDrawing] = useState<Drawing>({ isSmooth: false, hasIntervals: false });
  const [cursor, setCursor] = useState<number | null>(null);
  const [zoom, setZoom] = useState<Zoom | null>(null);
  const onCursor = useCallback((at: number | null) => setCursor(at), []);
  const scheme = useScheme();
  const figure = useRef<HTMLElement>(null);
  const { chart, unit } = useMemo(
    () =>
      comparison(
        compared.map(({ job, name, curves }) => ({ id: job.id, name, startedAt: job.started_at, curves })),
        metricName,
        axis,
        drawing,
      ),
    [compared, metricName, axis, drawing],
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
        {metric.split && (
          <label className="check">
            <input
              type="checkbox"
              checked={drawing.hasIntervals && !drawing.isSmooth}
              disabled={drawing.isSmooth}
              onChange={(event) => setDrawing({ ...drawing, hasIntervals: event.target.checked })}
            />
            Intervals
          </label>
        )}
        <Segmented
          label="Smoothing"
          options={SMOOTHINGS}
          value={drawing.isSmooth ? "smooth" : "plain"}
          onChange={(next) => setDrawing({ ...drawing, isSmooth: next === "smooth" })}
        />
        <Segmented label="Axis" options={AXES} value={axis} onChange={(next) => (setAxis(next), setZoom(null))} />
      </header>
      <figure className="compared-chart" ref={figure}>
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
          {/* Last: what is told before them changes when a click takes the focus from the chart. */}
          {!isEmpty && <ChartFiles owner="compared" title={metric.label} chart={chart} unit={unit} figure={figure} />}
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
            range={metric.split ? fittedRange : undefined}
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
