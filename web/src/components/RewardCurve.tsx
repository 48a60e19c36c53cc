import { useMemo, useState } from "react";
import type { Job, JobCurvesObject, Step } from "../api/types";
import { type Axis, axisNote, overAxis } from "../lib/axes";
import { fixed } from "../lib/format";
import { isSame, type Zoom } from "../lib/plot";
import type { Chart as ChartData } from "../lib/series";
import { Chart } from "./Chart";
import { Problem, Skeleton } from "./State";

export type DrawReward = (steps: readonly Step[]) => ChartData;

/** The job's curves with the rollouts that each step had cost. */
export interface SpentCurves {
  curves: JobCurvesObject | undefined;
  error: Error | null;
  onRetry(): void;
}

interface Props {
  job: Job;
  owner: string;
  axis: Axis;
  spent: SpentCurves;
  /** Over steps, those that the other charts are zoomed to. */
  chart: ChartData;
  draw: DrawReward;
  scale: string;
  range: (min: number | null, max: number | null) => [number, number];
  zoom: Zoom | null;
  onZoom(zoom: Zoom | null): void;
}

const HEIGHT = 220;
const FIGURE_HEIGHT = 290;

/** The reward over steps together with the other charts, or by itself over rollouts or time. */
export function RewardCurve({ job, axis, spent, draw, chart, zoom, onZoom, ...others }: Props) {
  if (axis !== "step") return <Elsewhere {...others} {...{ job, axis, spent, draw }} />;
  return <Drawn {...others} chart={chart} unit="mean per step" zoom={zoom} onZoom={onZoom} />;
}

function Elsewhere({ job, axis, spent, draw, ...others }: Omit<Props, "chart" | "zoom" | "onZoom">) {
  const { curves, error, onRetry } = spent;
  const chart = useMemo(
    () => curves && overAxis(draw(curves.curves.data), { startedAt: job.started_at, curves }, axis),
    [curves, draw, job.started_at, axis],
  );
  if (error && !curves) return <Problem error={error} onRetry={onRetry} />;
  if (!chart) return <Skeleton height={FIGURE_HEIGHT} />;
  const unit = chart.axis?.unit ?? "";
  // What is zoomed to lies elsewhere in another unit.
  return <ZoomedAlone key={unit} {...others} chart={chart} unit={`mean per step, over ${axisNote(unit)}`} />;
}

function ZoomedAlone(props: Omit<DrawnProps, "zoom" | "onZoom">) {
  const [zoom, setZoom] = useState<Zoom | null>(null);
  return <Drawn {...props} zoom={zoom} onZoom={(next) => setZoom((old) => (isSame(old, next) ? old : next))} />;
}

type DrawnProps = Pick<Props, "owner" | "chart" | "scale" | "range" | "zoom" | "onZoom"> & { unit: string };

function Drawn({ owner, chart, unit, scale, range, zoom, onZoom }: DrawnProps) {
  return (
    <Chart
      owner={owner}
      title="Reward"
      unit={unit}
      chart={chart}
      height={HEIGHT}
      format={(value) => fixed(value, 3)}
      scale={scale}
      range={range}
      zoom={zoom}
      onZoom={onZoom}
      empty="Nothing was graded."
    />
  );
}
