import { useCallback, useMemo, useState } from "react";
import type { Job, MeasuredSplit } from "../api/types";
import { AXES, type Axis } from "../lib/axes";
import { compact, count, fixed, percent } from "../lib/format";
import { toolOrder } from "../lib/palette";
import { excludedChart, graderChart, rewardChart, timeChart, tokensChart, toolChart, toolsSeen } from "../lib/charts";
import type { Zoom } from "../lib/plot";
import { type Chart as ChartData, fittedRange, type Marker, rewardRange } from "../lib/series";
import { Chart } from "./Chart";
import type { JobCurves } from "../lib/summary";
import { waiting } from "../lib/standing";
import { type DrawReward, RewardCurve, type SpentCurves } from "./RewardCurve";
import { Segmented } from "./Segmented";
import { Empty } from "./State";

interface Props {
  job: Job;
  curves: JobCurves;
  zoom: Zoom | null;
  onZoom(zoom: Zoom | null): void;
  markers: readonly Marker[];
  /** Of rewards. */
  axis: Axis;
  onAxis(axis: Axis): void;
  spent: SpentCurves;
  /** The job's own order of tools. */
  tools: readonly string[];
}

const SPLITS: { value: MeasuredSplit; label: string }[] = [
  { value: "train", label: "Train" },
  { value: "valid", label: "Validation" },
];
type Smoothing = "plain" | "smooth";
const SMOOTHINGS: { value: Smoothing; label: string }[] = [
  { value: "plain", label: "As measured" },
  { value: "smooth", label: "Smoothed" },
];
type Scale = "whole" | "fitted";
const SCALES: { value: Scale; label: string }[] = [
  { value: "whole", label: "0 to 1" },
  { value: "fitted", label: "Fit" },
];
const SHORT = 168;
const seconds = (value: number) => `${compact(value)} s`;

/** All curves of a job over its steps. */
export function Curves({ job, curves, tools, markers, axis, onAxis, spent, zoom, onZoom }: Props) {
  const steps = curves.data;
  const [split, setSplit] = useState<MeasuredSplit>("train");
  const [scale, setScale] = useState<Scale>("whole");
  const [smoothing, setSmoothing] = useState<Smoothing>("plain");
  const draw = useCallback<DrawReward>(
    (some) => rewardChart(some, job.baselines ?? [], { isSmooth: smoothing === "smooth", markers }),
    [job.baselines, smoothing, markers],
  );
  const order = useMemo(() => toolOrder(tools, toolsSeen(steps)), [tools, steps]);
  // Marks come later than steps, and again with each checkpoint: only rewards are drawn with them.
  const reward = useMemo(() => draw(steps), [steps, draw]);
  const others = useMemo(
    () => ({
      graders: graderChart(steps, split),
      tools: toolChart(steps, split, order),
      tokens: tokensChart(steps),
      excluded: excludedChart(steps, split),
      time: timeChart(steps),
    }),
    [steps, split, order],
  );
  return (
    <section className="panel" aria-labelledby="curves">
      <header>
        <h2 id="curves">Curves</h2>
        {steps.length < curves.steps && (
          <span className="muted small">
            {count(steps.length)} of {count(curves.steps)} steps are drawn, the highest and lowest among them; drag to
            see more
          </span>
        )}
        <span className="spacer" />
        {zoom !== null && (
          <>
            {axis === "step" && (
              <span className="muted small nowrap">
                steps {zoom.from} to {zoom.to}
              </span>
            )}
            <button type="button" onClick={() => onZoom(null)}>
              Show all steps
            </button>
          </>
        )}
        {steps.length > 0 && (
          <>
            <Segmented label="Axis of rewards" options={AXES} value={axis} onChange={onAxis} />
            <Segmented label="Training reward" options={SMOOTHINGS} value={smoothing} onChange={setSmoothing} />
            <span className="muted small">on</span>
            <Segmented label="Scale of rewards" options={SCALES} value={scale} onChange={setScale} />
            <span className="muted small">{others.graders && "Scores, "}tool calls and excluded rollouts of</span>
            <Segmented label="Split" options={SPLITS} value={split} onChange={setSplit} />
          </>
        )}
      </header>
      {steps.length === 0 ? (
        <Waiting job={job} />
      ) : (
        <Charts {...{ job, charts: { reward, ...others }, scale, axis, spent, draw, zoom, onZoom }} />
      )}
    </section>
  );
}

function Waiting({ job }: Pick<Props, "job">) {
  const { title, text } = waiting(job);
  return <Empty title={title}>{text}</Empty>;
}

interface AllCharts extends Record<"reward" | "tools" | "tokens" | "excluded" | "time", ChartData> {
  graders: ChartData | null;
}

function Charts({
  job,
  charts,
  scale,
  axis,
  spent,
  draw,
  ...given
}: { charts: AllCharts; scale: Scale; draw: DrawReward } & Pick<Props, "job" | "axis" | "spent" | "zoom" | "onZoom">) {
  const zoomed = { ...given, owner: job.id };
  const rewards = { scale, range: scale === "fitted" ? fittedRange : rewardRange };
  return (
    <div className="charts">
      <div className="wide">
        <RewardCurve {...zoomed} {...rewards} {...{ job, axis, spent, draw }} chart={charts.reward} />
      </div>
      {charts.graders && (
        <Chart
          {...zoomed}
          title="Scores"
          unit="mean by grader"
          chart={charts.graders}
          height={220}
          format={(value) => fixed(value, 3)}
          {...rewards}
          empty="Nothing was graded."
        />
      )}
      <Chart
        {...zoomed}
        title="Tool calls"
        unit="per rollout"
        chart={charts.tools}
        height={charts.graders ? SHORT : 220}
        format={compact}
        empty="No tool has been called."
      />
      <Chart
        {...zoomed}
        title="Completion tokens"
        unit="per rollout"
        chart={charts.tokens}
        height={SHORT}
        format={compact}
        empty="Nothing has been sampled."
      />
      <Chart
        {...zoomed}
        title="Excluded rollouts"
        unit="share of rollouts"
        chart={charts.excluded}
        height={SHORT}
        format={percent}
        axis="percent"
        empty="No rollout was excluded."
      />
      <div className={charts.graders ? "full" : ""}>
        <Chart
          {...zoomed}
          title="Step time"
          unit="seconds"
          chart={charts.time}
          height={SHORT}
          format={seconds}
          empty="No step is complete."
        />
      </div>
    </div>
  );
}
