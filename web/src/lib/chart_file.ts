/** A chart as a table that other programs read. */
import type { Chart, Series } from "./series";

/** A line per step, a column per series and per end of its interval; empty where nothing was measured. Over another axis
 * than steps, the place on it stands beside the step; `first`: what a chart without steps has in their place. */
export function csvOf(chart: Chart, first = "step"): string {
  const place = chart.axis ? [{ name: chart.axis.unit, values: chart.steps }] : [];
  const columns = [...place, ...chart.series.flatMap(columnsOf)];
  const head = [first, ...columns.map((column) => column.name)];
  const steps = chart.axis?.steps ?? chart.steps;
  return csvTable(
    head,
    steps.map((step, i) => [step, ...columns.map((column) => column.values[i] ?? null)]),
  );
}

/** A line per row under a line of names; null is empty. RFC 4180. */
export function csvTable(head: readonly string[], rows: readonly (readonly (number | null)[])[]): string {
  const lines = rows.map((row) => row.map((value) => value ?? "").join(","));
  return [head.map(quoted).join(","), ...lines, ""].join("\r\n");
}

/** A name for the file: what it is of, and what is drawn. */
export function chartFileName(owner: string, title: string, extension: string): string {
  return `${owner}-${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}.${extension}`;
}

function columnsOf(series: Series) {
  const own = { name: series.label, values: series.values };
  if (!series.interval) return [own];
  const { low, high } = series.interval;
  return [own, { name: `${series.label} low`, values: low }, { name: `${series.label} high`, values: high }];
}

/** Quoted where it must be. What a spreadsheet would run as a formula is told to be text. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
