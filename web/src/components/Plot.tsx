import {
  type KeyboardEvent,
  type MouseEvent,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { askedRange, plotData, type PlotStyle, plotOptions, type Zoom, zoomOf } from "../lib/plot";
import { movedIndex, panned, shifted } from "../lib/plot_keys";
import { type Chart, indexOf } from "../lib/series";

interface Props {
  label: string;
  chart: Chart;
  /** The step under the cursor. */
  step: number | null;
  height: number;
  axis: PlotStyle["axis"];
  range: PlotStyle["range"];
  zoom: PlotStyle["zoom"];
  onCursor: PlotStyle["onCursor"];
  onZoom: PlotStyle["onZoom"];
}

/** Charts over the same axis move their crosshairs together. */
function syncKeyOf({ axis }: Chart): string {
  return axis?.unit ?? "steps";
}

/** Puts the crosshair of every chart over the same axis on a step, as the mouse does; null takes it away. */
function moveCursors(chart: Chart, step: number | null): void {
  for (const plot of uPlot.sync(syncKeyOf(chart)).plots) {
    plot.setCursor({ left: step === null ? -10 : plot.valToPos(step, "x"), top: step === null ? -10 : 1 });
  }
}

/** While a part is dragged along, nobody is told of it: each step on the way would ask the API for its points. */
let isDragged = false;

interface Latest {
  chart: Chart;
  step: number | null;
  zoom: Zoom | null;
}

/** A plot of what is known when its place has a width. */
function drawnIn(element: HTMLElement, width: number, first: Props, latest: RefObject<Latest>): uPlot {
  const css = getComputedStyle(element);
  const { chart, zoom } = latest.current;
  const style: PlotStyle = {
    ...first,
    onZoom: (next) => isDragged || first.onZoom(next),
    markers: () => latest.current.chart.markers ?? [],
    color: (property) => css.getPropertyValue(property).trim(),
    font: `11px ${css.fontFamily}`,
    width,
    syncKey: syncKeyOf(chart),
  };
  const created = new uPlot(plotOptions(chart, style), plotData(chart), element);
  if (zoom) created.setScale("x", { min: zoom.from, max: zoom.to });
  return created;
}

/** New data in the same plot, which shows the steps it showed: all, or those it is zoomed to. The crosshair stays on its
 * step, wherever that is drawn now. */
function feed(plot: uPlot, chart: Chart, step: number | null): void {
  const { min, max } = askedRange(chart, plot.scales["x"]) ?? {};
  const isZoomed = zoomOf(plot.data[0], { min, max }) !== null;
  plot.setData(plotData(chart), !isZoomed);
  if (isZoomed && min !== undefined && max !== undefined) plot.setScale("x", { min, max });
  if (step !== null) plot.setCursor({ left: plot.valToPos(step, "x"), top: 1 });
}

/** Charts over the same axis show the same part. */
function showPart(chart: Chart, part: Zoom): void {
  for (const plot of uPlot.sync(syncKeyOf(chart)).plots) plot.setScale("x", { min: part.from, max: part.to });
}

/** Follows the mouse with the part that is looked at, in steps; tells where it is let go. */
function dragPart(event: MouseEvent, chart: Chart, plot: uPlot, zoom: Zoom, onZoom: (zoom: Zoom) => void): void {
  const [first, last] = [chart.steps[0], chart.steps.at(-1)];
  if (first === undefined || last === undefined) return;
  const stepsPerPixel = (zoom.to - zoom.from) / plot.over.clientWidth;
  let part = zoom;
  isDragged = true;
  const move = (moved: globalThis.MouseEvent) => {
    part = shifted(zoom, (event.clientX - moved.clientX) * stepsPerPixel, first, last);
    showPart(chart, part);
  };
  const end = () => {
    removeEventListener("mousemove", move);
    isDragged = false;
    onZoom(part);
  };
  addEventListener("mousemove", move);
  addEventListener("mouseup", end, { once: true });
}

/** The one place that draws with uPlot. Arrow keys move the crosshair, with Shift the part that is looked at, as a drag
 * with Shift does; a double click zooms out again. */
export function Plot(props: Props) {
  const { label, chart, step, height, zoom } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const drawn = useRef<Chart>(null);
  const [first] = useState(props);
  const latest = useRef({ chart, step, zoom });
  useLayoutEffect(() => {
    latest.current = { chart, step, zoom };
  });

  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    // The browser tells the widths of all charts after one layout; asked for, each would cost a layout of its own.
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry?.contentRect.width ?? 0);
      if (plot.current !== null) return plot.current.setSize({ width, height: first.height });
      if (width === 0) return;
      plot.current = drawnIn(element, width, first, latest);
      drawn.current = latest.current.chart;
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [first]);

  useEffect(() => {
    if (plot.current === null || drawn.current === chart) return;
    feed(plot.current, chart, latest.current.step);
    drawn.current = chart;
  }, [chart]);

  // Zoomed out by a button, not by a double click on a chart.
  useEffect(() => {
    const [from, to] = [chart.steps[0], chart.steps.at(-1)];
    if (zoom !== null || plot.current === null || from === undefined || to === undefined) return;
    if (zoomOf(plot.current.data[0], askedRange(chart, plot.current.scales["x"])) !== null)
      plot.current.setScale("x", { min: from, max: to });
  }, [zoom, chart]);

  const pan = (event: KeyboardEvent) => {
    const [from, to] = [chart.steps[0], chart.steps.at(-1)];
    const next = zoom && from !== undefined && to !== undefined ? panned(event.key, zoom, from, to) : null;
    if (next === null) return;
    event.preventDefault();
    showPart(chart, next);
  };
  const onMouseDown = (event: MouseEvent) => {
    if (!event.shiftKey || event.button !== 0 || zoom === null || plot.current === null) return;
    event.preventDefault();
    event.stopPropagation(); // Else uPlot takes it for a part to look closer at.
    dragPart(event, chart, plot.current, zoom, props.onZoom);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.shiftKey) return pan(event);
    const at = movedIndex(event.key, step === null ? null : indexOf(chart.steps, step), chart.steps.length);
    if (at === null) return;
    event.preventDefault();
    moveCursors(chart, chart.steps[at] ?? null);
  };

  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- the arrow keys work on it
    <div
      ref={host}
      className="chart-canvas"
      style={{ height }}
      data-points={chart.steps.length}
      role="application"
      aria-label={`${label} by ${chart.axis?.unit ?? "step"}: arrow keys move the crosshair`}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- the arrow keys work on it
      tabIndex={0}
      onKeyDown={onKeyDown}
      onMouseDownCapture={onMouseDown}
      onBlur={() => moveCursors(chart, null)}
    />
  );
}
