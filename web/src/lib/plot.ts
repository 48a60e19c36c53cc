/** uPlot's options and data for a chart. Pure: colours are handed in, nothing is drawn here. */
import uPlot, { type AlignedData, type Options, type Series as PlotSeries } from "uplot";
import { edges, edgeValues, intervalBands } from "./plot_intervals";
import { drawMarkers } from "./plot_markers";
import { type Chart, held, type Marker, type Series, stacked, stepAt } from "./series";
import { tickLabels } from "./ticks";

/** Steps that are looked at more closely, both ends counted. */
export interface Zoom {
  from: number;
  to: number;
}

export interface PlotStyle {
  /** Colour of a custom property in the scheme of now. */
  color(property: string): string;
  font: string;
  width: number;
  height: number;
  /** Fixed axis range for what the data holds; absent: from 0 to a little above the highest. */
  range?: ((min: number | null, max: number | null) => [number, number]) | undefined;
  /** How the axis is labelled; absent: plain numbers. */
  axis?: "percent" | undefined;
  /** Charts with the same name move their cursors together. */
  syncKey: string;
  /** Steps to begin with; null: all. */
  zoom: Zoom | null;
  /** As they are when the plot is drawn. */
  markers?: () => readonly Marker[];
  onZoom(zoom: Zoom | null): void;
  onCursor(step: number | null): void;
}

/** Steps are whole: the axis never shows halves. */
const STEP_INCREMENTS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7,
];

/** While it stays the same, new data can be put into the same plot. */
export function plotShape(chart: Chart): string {
  return chart.series.map((one) => `${one.key}/${one.kind}/${one.color}${one.interval ? "/band" : ""}`).join(" ");
}

/** Steps first, then one column per series, as they are drawn. */
export function plotData(chart: Chart): AlignedData {
  const columns = chart.isStacked ? stacked(chart.series) : chart.series.map((one) => one.values);
  const shown = columns.map((values, i) => (chart.series[i]?.kind === "held" ? held(values) : values));
  const measured = chart.series.filter((one) => one.kind === "held").map((one) => one.values);
  return [chart.steps, ...drawn(chart, shown), ...measured, ...edgeValues(chart)];
}

/** Bars begin with the topmost: each reaches down to 0, and those below are drawn over it. */
function drawn<T>(chart: Chart, items: readonly T[]): readonly T[] {
  return hasBars(chart) ? items.toReversed() : items;
}

function hasBars(chart: Chart): boolean {
  return chart.series.some((one) => one.kind === "bar");
}

/** Options for `new uPlot`. A held series gets a second, invisible one that carries its measured points, and one with
 * an interval two more for the edges of its band. */
export function plotOptions(chart: Chart, style: PlotStyle): Options {
  const shown = drawn(chart, chart.series).map((one) => toSeries(one, style));
  const measured = chart.series.filter((one) => one.kind === "held").map((one) => toPoints(one, style));
  return {
    width: style.width,
    height: style.height,
    // Half of the last label stands right of its tick.
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: style.syncKey, setSeries: false, scales: ["x", null] },
      y: false,
      drag: { x: true, y: false },
      points: { size: 7, width: 1.5, one: false, show: chart.series.length > 0 },
    },
    scales: {
      x: { time: false, range: hasBars(chart) ? barRange : chart.axis ? xRange : stepRange },
      y: { range: (_, min, max) => (style.range ?? fromZero)(min, max) },
    },
    axes: [
      axis(style, { incrs: STEP_INCREMENTS, size: 26, space: 44 }),
      axis(style, { size: 50, space: 34, values: (_, ticks) => tickLabels(ticks, style.axis) }),
    ],
    series: [{}, ...shown, ...measured, ...edges(chart)],
    bands: [...bands(chart), ...intervalBands(chart, style.color)],
    hooks: {
      drawAxes: [(plot: uPlot) => drawMarkers(plot, style)],
      setCursor: [(plot: uPlot) => style.onCursor(stepAt(plot.data[0], plot.cursor.idx))],
      setScale: [(plot: uPlot, key: string) => key === "x" && style.onZoom(zoomOf(chart, plot.data[0], plot.scales.x))],
    },
  };
}

/** What of its axis a chart shows, in whole steps where it has steps; null where it shows all. */
export function zoomOf(chart: Chart, places: ArrayLike<number>, scale: Range | undefined): Zoom | null {
  const { min, max } = askedRange(chart, scale) ?? {};
  const [first, last] = [places[0], places[places.length - 1]];
  if (min == null || max == null || first === undefined || last === undefined) return null;
  if (min <= first && max >= last) return null;
  return chart.axis ? { from: min, to: max } : { from: Math.floor(min), to: Math.ceil(max) };
}

export function isSame(one: Zoom | null, other: Zoom | null): boolean {
  return one?.from === other?.from && one?.to === other?.to;
}

/** From 0 to a little above the highest value. */
export function fromZero(min: number | null, max: number | null): [number, number] {
  const low = Math.min(0, min ?? 0);
  const high = max === null || max <= low ? low + 1 : max + (max - low) * 0.08;
  return [low, high];
}

/** A single place still needs an axis of some width. */
export function xRange(_plot: unknown, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  return min === max ? [min, min + 1] : [min, max];
}

/** Whole steps, the same in all charts. */
export function stepRange(plot: unknown, min: number | null, max: number | null): [number, number] {
  return xRange(plot, min === null ? null : Math.floor(min), max === null ? null : Math.ceil(max));
}

const BESIDE_BARS = 0.5;

/** Bars stand around their step: half a step more on both sides. */
export function barRange(plot: unknown, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return xRange(plot, min, max);
  return [Math.floor(min) - BESIDE_BARS, Math.ceil(max) + BESIDE_BARS];
}

/** What a scale was set to: without what bars take beside it, which would be added again whenever it is set anew. */
export function askedRange(chart: Chart, scale: Range | undefined): Range | undefined {
  if (scale?.min == null || scale.max == null || !hasBars(chart)) return scale;
  return { min: scale.min + BESIDE_BARS, max: scale.max - BESIDE_BARS };
}

interface Range {
  min?: number;
  max?: number;
}

/** The area of each stacked series reaches down to the one below it. */
export function bands(chart: Chart): { series: [number, number] }[] {
  const areas = chart.series.flatMap((one, i) => (one.kind === "area" ? [i + 1] : []));
  return areas.slice(1).map((upper, i) => ({ series: [upper, areas[i] ?? upper] }));
}

function toSeries(one: Series, style: PlotStyle): PlotSeries {
  const stroke = style.color(one.color);
  const isAlone = one.values.filter((value) => value !== null).length < 2;
  const series: PlotSeries = {
    label: one.label,
    stroke,
    width: 1.75,
    spanGaps: true,
    points: { show: isAlone, size: 6, fill: stroke },
  };
  if (one.kind === "area") return { ...series, width: 1, fill: `${stroke}${style.color("--c-area-alpha")}` };
  if (one.kind === "bar") {
    const bars = uPlot.paths.bars?.({ size: [0.72, 22], gap: 0 });
    return { ...series, width: 0, fill: stroke, points: { show: false }, ...(bars && { paths: bars }) };
  }
  if (one.kind === "dashed") return { ...series, width: 1.25, dash: [5, 4], points: { show: false } };
  if (one.kind === "held") {
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    return { ...series, width: 1.25, points: { show: false }, ...(stepped && { paths: stepped }) };
  }
  return series;
}

function toPoints(one: Series, style: PlotStyle): PlotSeries {
  const stroke = style.color(one.color);
  return {
    label: `${one.label} measured`,
    stroke,
    paths: () => null,
    points: { show: true, size: isCrowded(one) ? 3 : 7, width: 1, stroke, fill: stroke },
  };
}

/** So many points that they would run together. */
function isCrowded(one: Series): boolean {
  return one.values.filter((value) => value !== null).length > 60;
}

function axis(style: PlotStyle, options: uPlot.Axis): uPlot.Axis {
  const grid = { stroke: style.color("--c-grid"), width: 1 };
  return { stroke: style.color("--c-axis"), font: style.font, gap: 4, grid, ticks: { show: false }, ...options };
}
