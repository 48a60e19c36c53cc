/** Charts over the same axis move their crosshairs and show the same part together. Those out of sight stay as they
 * are, however many there are, and come up to the others when they are seen. */
import uPlot from "uplot";
import { isSame, plotData, type Zoom, zoomOf } from "../lib/plot";
import { type Chart, stepAt } from "../lib/series";

export function syncKeyOf({ axis }: Chart): string {
  return axis?.unit ?? "steps";
}

/** Puts the crosshair of a plot, and of all others in sight, on a step, as the mouse does; null takes it away. */
export function moveCursors(plot: uPlot, chart: Chart, step: number | null): void {
  for (const one of together(plot, chart)) moveCursor(one, step);
}

/** Has a plot, and all others in sight, show the same part. */
export function showPart(plot: uPlot, chart: Chart, part: Zoom): void {
  for (const one of together(plot, chart)) one.setScale("x", { min: part.from, max: part.to });
}

/** A plot in sight hears of what is done in the others. */
export function join(plot: uPlot, chart: Chart): void {
  const group = uPlot.sync(syncKeyOf(chart));
  if (group.plots.includes(plot)) return;
  const [other] = group.plots;
  group.sub(plot);
  moveCursor(plot, other ? stepAt(other.data[0], other.cursor.idx) : null);
}

/** One in which a part is just drawn out stays: it has to hear where that ends. */
export function leave(plot: uPlot, chart: Chart): void {
  if (plot.select.width === 0) uPlot.sync(syncKeyOf(chart)).unsub(plot);
}

/** What of its steps a plot shows; null where it shows all. */
export function shownPart(plot: uPlot, chart: Chart): Zoom | null {
  return zoomOf(chart, plot.data[0], plot.scales["x"]);
}

/** New data in the same plot. The crosshair stays on its step, wherever that is drawn now. */
export function feed(plot: uPlot, chart: Chart, part: Zoom | null, step: number | null): void {
  plot.batch(() => {
    plot.setData(plotData(chart), part === null);
    if (part !== null) plot.setScale("x", { min: part.from, max: part.to });
  });
  if (step !== null) moveCursor(plot, step);
}

/** Zoomed to what the others are, where it is not yet: by a button, or while the plot was out of sight. */
export function follow(plot: uPlot, chart: Chart, zoom: Zoom | null): void {
  const [from, to] = zoom === null ? [chart.steps[0], chart.steps.at(-1)] : [zoom.from, zoom.to];
  if (from === undefined || to === undefined || isSame(shownPart(plot, chart), zoom)) return;
  // Drawn at once: who moves the crosshair next has to find its steps where they are now.
  plot.batch(() => plot.setScale("x", { min: from, max: to }));
}

/** Those in sight, and the plot that a key or the mouse is at. */
function together(plot: uPlot, chart: Chart): ReadonlySet<uPlot> {
  return new Set([...uPlot.sync(syncKeyOf(chart)).plots, plot]);
}

function moveCursor(plot: uPlot, step: number | null): void {
  plot.setCursor({ left: step === null ? -10 : plot.valToPos(step, "x"), top: step === null ? -10 : 1 });
}
