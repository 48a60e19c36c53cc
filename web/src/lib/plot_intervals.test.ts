import "../testing/uplot_globals";
import { expect, test } from "vitest";
import { stats, step } from "../testing/records";
import { rewardChart } from "./charts";
import { edges, edgeValues } from "./plot_intervals";
import { line } from "./series";

test("a held interval ends with the value that it was measured with", () => {
  const measured = (mean: number, low: number | null, high: number | null) =>
    stats({ reward_mean: mean, reward_low: low, reward_high: high });
  const chart = rewardChart([
    step(10, null, measured(3.5, 2.9, 4.1)),
    step(11, stats(), null),
    step(20, null, measured(5, null, null)),
    step(21, stats(), null),
    step(30, null, measured(4, 3, 5)),
  ]);
  expect(edgeValues(chart)).toEqual([
    [4.1, 4.1, null, null, 5],
    [2.9, 2.9, null, null, 3],
  ]);
  expect(edges(chart).every((edge) => !edge.spanGaps)).toBe(true);
});

test("a line's interval goes over places of others, and not over values of its own that have none", () => {
  const values = [1, null, 2, null, 3, null, 4];
  const ends = [0.5, null, 1.5, null, null, null, 3.5];
  const series = { ...line("a", "A", "--c", values), interval: { low: ends, high: ends } };
  const [high, low] = edgeValues({ series: [series], steps: values.map((_, at) => at), isStacked: false });
  // A plot is drawn over what is undefined, and not over null.
  expect(high).toStrictEqual([0.5, undefined, 1.5, null, null, null, 3.5]);
  expect(low).toStrictEqual(high);
});
