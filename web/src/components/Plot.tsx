import {
  type KeyboardEvent,
  type MouseEvent,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { plotData, type PlotStyle, plotOptions, type Zoom } from "../lib/plot";
import { extentOf, movedStep, panned, shifted } from "../lib/plot_keys";
import type { Chart } from "../lib/series";
import { feed, follow, join, leave, moveCursors, shownPart, showPart, syncKeyOf } from "./plot_group";

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

/** Follows the mouse with the part that is looked at; tells where it is let go. */
function dragPart(event: MouseEvent, chart: Chart, plot: uPlot, zoom: Zoom, onZoom: (zoom: Zoom) => void): void {
  const extent = extentOf(chart);
  if (extent === null) return;
  const perPixel = (zoom.to - zoom.from) / plot.over.clientWidth;
  let part = zoom;
  isDragged = true;
  const move = (moved: globalThis.MouseEvent) => {
    part = shifted(zoom, (event.clientX - moved.clientX) * perPixel, extent);
    showPart(plot, chart, part);
  };
  const end = () => {
    removeEventListener("mousemove", move);
    isDragged = false;
    onZoom(part);
  };
  addEventListener("mousemove", move);
  addEventListener("mouseup", end, { once: true });
}

/** How far out of sight a chart is drawn already: it is there when somebody scrolls to it. */
const NEARLY_IN_SIGHT = "25% 0px";

/** The one place that draws with uPlot. Arrow keys move the crosshair, with Shift the part that is looked at, as a drag
 * with Shift does; a double click zooms out again. */
export function Plot(props: Props) {
  const { label, chart, step, height, zoom } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const drawn = useRef<Chart>(null);
  const isInSight = useRef(true);
  const [first] = useState(props);
  const latest = useRef({ chart, step, zoom });
  useLayoutEffect(() => {
    latest.current = { chart, step, zoom };
  });

  /** Draws what a plot in sight does not show yet. */
  const comeUp = useCallback(() => {
    if (plot.current === null || !isInSight.current) return;
    const now = latest.current;
    const part = isDragged ? shownPart(plot.current, now.chart) : now.zoom;
    if (drawn.current === now.chart) follow(plot.current, now.chart, part);
    else feed(plot.current, now.chart, part, now.step);
    drawn.current = now.chart;
    join(plot.current, now.chart);
  }, []);

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
      if (!isInSight.current) leave(plot.current, latest.current.chart);
    });
    const sight = new IntersectionObserver(
      ([entry]) => {
        isInSight.current = entry?.isIntersecting ?? true;
        if (plot.current !== null && !isInSight.current) leave(plot.current, latest.current.chart);
        comeUp();
      },
      { rootMargin: NEARLY_IN_SIGHT },
    );
    observer.observe(element);
    sight.observe(element);
    return () => {
      observer.disconnect();
      sight.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [first, comeUp]);

  useEffect(comeUp, [comeUp, chart, zoom]);

  const pan = (event: KeyboardEvent) => {
    const extent = extentOf(chart);
    const next = zoom && extent ? panned(event.key, zoom, extent) : null;
    if (next === null || plot.current === null) return;
    event.preventDefault();
    showPart(plot.current, chart, next);
  };
  const onMouseDown = (event: MouseEvent) => {
    if (!event.shiftKey || event.button !== 0 || zoom === null || plot.current === null) return;
    event.preventDefault();
    event.stopPropagation(); // Else uPlot takes it for a part to look closer at.
    dragPart(event, chart, plot.current, zoom, props.onZoom);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.shiftKey) return pan(event);
    const next = movedStep(event.key, step, chart.steps, zoom);
    if (next === null || plot.current === null) return;
    event.preventDefault();
    moveCursors(plot.current, chart, next);
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
      onBlur={() => plot.current && moveCursors(plot.current, chart, null)}
    />
  );
}
