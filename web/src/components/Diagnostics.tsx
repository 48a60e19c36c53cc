import { useMemo } from "react";
import type { DiagnosticPoint } from "../api/types";
import { diagnosticCharts, type DiagnosticChart } from "../lib/diagnostics";
import { compact, percent } from "../lib/format";
import type { Zoom } from "../lib/plot";
import { Chart } from "./Chart";

interface Props {
  jobId: string;
  points: readonly DiagnosticPoint[];
  /** The job's own order. */
  tools: readonly string[];
  zoom: Zoom | null;
  onZoom(zoom: Zoom | null): void;
}

const HEIGHT = 140;
const FORMATS: Record<DiagnosticChart["kind"], (value: number) => string> = {
  share: percent,
  seconds: (value) => `${compact(value)} s`,
  number: compact,
  small: (value) => (value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toPrecision(3)),
};

/** How training goes, below what it came to. */
export function Diagnostics({ jobId, points, tools, zoom, onZoom }: Props) {
  const charts = useMemo(() => diagnosticCharts(points, tools), [points, tools]);
  return (
    <div className="charts filled">
      {charts.map((one) => (
        <Chart
          key={one.key}
          title={one.title}
          unit={one.unit}
          chart={one.chart}
          height={HEIGHT}
          format={FORMATS[one.kind]}
          axis={one.kind === "share" ? "percent" : undefined}
          owner={jobId}
          zoom={zoom}
          onZoom={onZoom}
          empty={one.empty}
        />
      ))}
    </div>
  );
}
