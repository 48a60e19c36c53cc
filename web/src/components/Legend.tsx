import type { ReactNode } from "react";
import { placeText } from "../lib/axes";
import { NONE } from "../lib/format";
import { markersTold } from "../lib/markers";
import { type Chart, indexOf, type Series, type Told, toldAt } from "../lib/series";

interface Props {
  title: string;
  unit?: string | undefined;
  chart: Chart;
  /** The step under the cursor; null: the latest values are shown. */
  step: number | null;
  format(value: number): string;
  /** At the end of the title's line. */
  children?: ReactNode;
}

/** Title and values of a chart. */
export function Legend({ title, unit, chart, step, format, children }: Props) {
  const index = step === null ? null : indexOf(chart.steps, step);
  const { axis } = chart;
  const place = index === null ? undefined : chart.steps[index];
  const shown = index === null ? null : (axis?.steps ?? chart.steps)[index];
  const placeTold = axis && place !== undefined ? ` · ${placeText(axis.unit, place)}` : "";
  return (
    <figcaption className="legend">
      <span className="legend-title">
        <h3>{title}</h3>
        {unit && <span className="muted">{unit}</span>}
        {children}
        {chart.series.length > 0 && (
          <span className="legend-step muted">{shown == null ? "latest" : `step ${shown}${placeTold}`}</span>
        )}
      </span>
      {chart.markers && chart.markers.length > 0 && (
        <span className="muted small">{markersTold(chart.markers, shown ?? null) || "\u00a0"}</span>
      )}
      <ul>
        {chart.series.map((one) => (
          <li key={one.key}>
            <Swatch series={one} />
            <span className="muted">{one.label}</span>
            <Figure told={toldAt(one, index)} format={format} />
          </li>
        ))}
      </ul>
    </figcaption>
  );
}

function Swatch({ series }: { series: Series }) {
  const color = `var(${series.color})`;
  const shape = series.kind === "area" || series.kind === "bar" ? "" : series.kind === "dashed" ? "dashed" : "line";
  return <span className={`swatch ${shape}`} style={{ background: color, ["--swatch" as string]: color }} />;
}

function Figure({ told: { value, interval }, format }: { told: Told } & Pick<Props, "format">) {
  return (
    <output>
      {value === null ? NONE : format(value)}
      {interval && <span className="muted"> [{interval.map(format).join(", ")}]</span>}
    </output>
  );
}
