import { type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { movedIndex, plotData, type PlotStyle, plotOptions, zoomOf } from "../lib/plot";
import type { Chart } from "../lib/series";

interface Props {
  label: string;
  chart: Chart;
  /** Index of the step under the cursor. */
  index: number | null;
  height: number;
  axis: PlotStyle["axis"];
  range: PlotStyle["range"];
  zoom: PlotStyle["zoom"];
  onCursor: PlotStyle["onCursor"];
  onZoom: PlotStyle["onZoom"];
}

const SYNC_KEY = "steps";

/** Puts the crosshair of every chart on a step, as the mouse does; null takes it away. */
function moveCursors(step: number | null): void {
  for (const plot of uPlot.sync(SYNC_KEY).plots) {
    plot.setCursor({ left: step === null ? -10 : plot.valToPos(step, "x"), top: step === null ? -10 : 1 });
  }
}

/** New data in the same plot, which shows the steps it showed: all, or those it is zoomed to. */
function feed(plot: uPlot | null, chart: Chart): void {
  if (plot === null) return;
  const { min, max } = plot.scales["x"] ?? {};
  const isZoomed = zoomOf(plot.data[0], plot.scales["x"]) !== null;
  plot.setData(plotData(chart), !isZoomed);
  if (isZoomed && min !== undefined && max !== undefined) plot.setScale("x", { min, max });
}

/** The one place that draws with uPlot. Arrow keys move the crosshair; a double click zooms out again. */
export function Plot(props: Props) {
  const { label, chart, index, height } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const [first] = useState(props);

  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    const css = getComputedStyle(element);
    const width = () => element.clientWidth;
    const style: PlotStyle = {
      ...first,
      color: (property) => css.getPropertyValue(property).trim(),
      font: `11px ${css.fontFamily}`,
      width: width(),
      syncKey: SYNC_KEY,
    };
    const created = new uPlot(plotOptions(first.chart, style), plotData(first.chart), element);
    plot.current = created;
    if (first.zoom) created.setScale("x", { min: first.zoom.from, max: first.zoom.to });
    const observer = new ResizeObserver(() => created.setSize({ width: width(), height: first.height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      created.destroy();
      plot.current = null;
    };
  }, [first]);

  useEffect(() => feed(plot.current, chart), [chart]);

  const onKeyDown = (event: KeyboardEvent) => {
    const at = movedIndex(event.key, index, chart.steps.length);
    if (at === null) return;
    event.preventDefault();
    moveCursors(chart.steps[at] ?? null);
  };

  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- the arrow keys work on it
    <div
      ref={host}
      className="chart-canvas"
      style={{ height }}
      data-points={chart.steps.length}
      role="application"
      aria-label={`${label} by step: arrow keys move the crosshair`}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the arrow keys work on it
      tabIndex={0}
      onKeyDown={onKeyDown}
      onBlur={() => moveCursors(null)}
    />
  );
}
