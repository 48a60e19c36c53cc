/** A series' interval in a plot: two invisible series for its edges, and a band between them. They come last of all. */
import uPlot from "uplot";
import { type Chart, held, type Series, type Values } from "./series";

/** The edges' values, upper and lower by turns. */
export function edgeValues(chart: Chart): Values[] {
  return chart.series.flatMap((one) =>
    one.interval ? [one.interval.high, one.interval.low].map((ends) => (one.kind === "held" ? held(ends) : ends)) : [],
  );
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

/** Drawn as its series is: in steps, or straight over gaps. */
function edge({ kind }: Series): uPlot.Series {
  const stepped = kind === "held" ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  return {
    spanGaps: true,
    stroke: "transparent",
    width: 0,
    points: { show: false },
    ...(stepped && { paths: stepped }),
  };
}
