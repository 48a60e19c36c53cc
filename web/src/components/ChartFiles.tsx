import type { RefObject } from "react";
import { chartFileName, csvOf } from "../lib/chart_file";
import { save } from "../lib/save";
import type { Chart, Series } from "../lib/series";

interface Props {
  /** What the files are named after. */
  owner: string;
  title: string;
  chart: Chart;
  /** What its places are, where they are no steps. */
  unit?: string;
  /** Where the chart is drawn. */
  figure: RefObject<HTMLElement | null>;
}

const PADDING = 16;
const LINE = 20;

/** Takes a chart away: its values as a table, what is seen as a picture. */
export function ChartFiles({ owner, title, chart, unit, figure }: Props) {
  const onCsv = () => save(new Blob([csvOf(chart, unit)], { type: "text/csv" }), chartFileName(owner, title, "csv"));
  const onPng = () => {
    const drawn = figure.current?.querySelector("canvas");
    if (figure.current && drawn)
      picture(drawn, title, chart.series, getComputedStyle(figure.current)).toBlob(
        (png) => png && save(png, chartFileName(owner, title, "png")),
      );
  };
  return (
    <span className="chart-files">
      <button type="button" className="quiet" aria-label={`${title} as CSV`} onClick={onCsv}>
        CSV
      </button>
      <button type="button" className="quiet" aria-label={`${title} as PNG`} onClick={onPng}>
        PNG
      </button>
    </span>
  );
}

/** The chart on the page's own colours, under its title and the names of its series. */
function picture(drawn: HTMLCanvasElement, title: string, series: readonly Series[], css: CSSStyleDeclaration) {
  const scale = drawn.width / drawn.clientWidth;
  const color = (property: string) => css.getPropertyValue(property).trim();
  const whole = document.createElement("canvas");
  const head = PADDING + 2 * LINE;
  whole.width = drawn.width + 2 * PADDING * scale;
  whole.height = drawn.height + (head + PADDING) * scale;
  const pen = whole.getContext("2d");
  if (pen === null) return whole;
  pen.scale(scale, scale);
  pen.fillStyle = color("--surface");
  pen.fillRect(0, 0, whole.width, whole.height);
  pen.fillStyle = color("--text");
  pen.font = `600 14px ${css.fontFamily}`;
  pen.fillText(title, PADDING, PADDING + 8);
  pen.font = `12px ${css.fontFamily}`;
  let left = PADDING;
  for (const one of series) {
    pen.fillStyle = color(one.color);
    pen.fillRect(left, PADDING + LINE + 4, 10, 4);
    pen.fillStyle = color("--text");
    pen.fillText(one.label, left + 15, PADDING + LINE + 10);
    left += 15 + pen.measureText(one.label).width + 18;
  }
  pen.drawImage(drawn, PADDING, head, drawn.clientWidth, drawn.clientHeight);
  return whole;
}
