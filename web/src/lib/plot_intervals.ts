/** A series' interval in a plot: two invisible series for its edges, and a band between them. They come last of all. */
import uPlot from "uplot";
import type { Chart, Series, Values } from "./series";

/** A plot is drawn over what is undefined, and not over null. */
type EdgeValues = (number | null | undefined)[];

/** The edges' values, upper and lower by turns. */
export function edgeValues(chart: Chart): EdgeValues[] {
  return chart.series.flatMap((one) =>
    one.interval ? [drawnEnds(one, one.interval.high), drawnEnds(one, one.interval.low)] : [],
  );
}

/** Ends as far as the values they belong to are drawn: until the next value, or between two that both have ends. */
function drawnEnds({ kind, values }: Series, ends: Values): EdgeValues {
  const before = heldEnds(values, ends);
  if (kind === "held") return before;
  const after = heldEnds(values.toReversed(), ends.toReversed()).toReversed();
  return ends.map((end, at) => (values[at] === null && before[at] !== null && after[at] !== null ? undefined : end));
}

/** The end of the last value, which may have none. */
function heldEnds(values: Values, ends: Values): Values {
  let last: number | null = null;
  return values.map((value, at) => (last = value === null ? last : (ends[at] ?? null)));
}

export function edges(chart: Chart): uPlot.Series[] {
  return chart.series.flatMap((one) => (one.interval ? [edge(one), edge(one)] : []));
}

export function intervalBands(chart: Chart, color: (property: string) => string): uPlot.Band[] {
  const first = 1 + chart.series.length + chart.series.filter((one) => one.kind === "held").length;
  return chart.series
    .filter((one) => one.interval)
    .map((one, i) => ({
      series: [first + 2 * i, first + 2 * i + 1],
      fill: `${color(one.color)}${color("--c-band-alpha")}`,
    }));
}

/** Drawn as its series is: in steps, or straight; not where the values have no interval. */
function edge({ kind }: Series): uPlot.Series {
  const stepped = kind === "held" ? uPlot.paths.stepped?.({ align: 1, alignGaps: 1 }) : undefined;
  return {
    spanGaps: false,
    stroke: "transparent",
    width: 0,
    points: { show: false },
    ...(stepped && { paths: stepped }),
  };
}
