import { useCallback, useEffect, useRef, useState } from "react";
import { plotShape, type Zoom } from "../lib/plot";
import type { Chart as ChartData } from "../lib/series";
import { ChartFiles } from "./ChartFiles";
import { Legend } from "./Legend";
import { Plot } from "./Plot";

interface Props {
  title: string;
  unit?: string;
  chart: ChartData;
  height: number;
  format(value: number): string;
  axis?: "percent";
  range?: (min: number | null, max: number | null) => [number, number];
  /** Names the range: another one makes another plot. */
  scale?: string;
  zoom: Zoom | null;
  onZoom(zoom: Zoom | null): void;
  /** What saved files are named after; absent: nothing is saved. */
  owner?: string;
  /** Said in place of the chart when there is nothing to draw. */
  empty: string;
}

const SCHEME = "(prefers-color-scheme: dark)";

/** A chart with its legend, which shows the values under the cursor. */
export function Chart({ title, unit, chart, height, format, axis, range, scale, zoom, onZoom, owner, empty }: Props) {
  const [step, setStep] = useState<number | null>(null);
  const scheme = useScheme();
  const onCursor = useCallback((at: number | null) => setStep(at), []);
  const figure = useRef<HTMLElement>(null);
  const isEmpty = chart.series.length === 0 || chart.steps.length === 0;
  return (
    <figure className="chart" ref={figure}>
      <Legend title={title} unit={unit} chart={chart} step={step} format={format}>
        {owner && !isEmpty && <ChartFiles owner={owner} title={title} chart={chart} figure={figure} />}
      </Legend>
      {isEmpty ? (
        <div className="chart-empty" style={{ height }}>
          {empty}
        </div>
      ) : (
        // Other series or colours make another plot; other data does not.
        <Plot
          key={`${scheme} ${scale ?? ""} ${chart.axis?.unit ?? ""} ${plotShape(chart)}`}
          label={title}
          chart={chart}
          step={step}
          height={height}
          axis={axis}
          range={range}
          zoom={zoom}
          onCursor={onCursor}
          onZoom={onZoom}
        />
      )}
    </figure>
  );
}

/** Colours are drawn, not styled: another scheme makes another plot. */
export function useScheme(): "dark" | "light" {
  const [isDark, setDark] = useState(() => matchMedia(SCHEME).matches);
  useEffect(() => {
    const query = matchMedia(SCHEME);
    const follow = () => setDark(query.matches);
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, []);
  return isDark ? "dark" : "light";
}
