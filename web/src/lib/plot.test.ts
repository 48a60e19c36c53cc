import "../testing/uplot_globals";
import { expect, test } from "vitest";
import { stats, step, tool } from "../testing/records";
import {
  askedRange,
  bands,
  barRange,
  fromZero,
  isSame,
  plotData,
  plotOptions,
  plotShape,
  stepRange,
  xRange,
  zoomOf,
} from "./plot";
import { extentOf, movedStep, panned, shifted } from "./plot_keys";
import { type Chart, line } from "./series";
import { tickLabels } from "./ticks";
import { excludedChart, rewardChart, toolChart } from "./charts";

const STEPS = [
  step(0, null, stats({ reward_mean: 0.25 })),
  step(1, stats({ reward_mean: 0.4, tools: [tool("a", 2), tool("b", 1)] }), null),
];
const STYLE = {
  color: (name: string) => name,
  font: "11px x",
  width: 300,
  height: 100,
  syncKey: "s",
  onCursor: () => undefined,
  zoom: null,
  onZoom: () => undefined,
};

const STEPPED = { series: [], steps: [], isStacked: false } satisfies Chart;

test("a held series comes with its measured points", () => {
  const chart = rewardChart(STEPS);
  expect(plotData(chart)).toEqual([
    [0, 1],
    [null, 0.4],
    [0.25, 0.25],
    [0.25, 0.25],
    [0.25, null],
  ]);
  expect(plotOptions(chart, STYLE).series).toHaveLength(5);
});

test("an interval is a band between two edges, held like its values", () => {
  const measured = stats({ reward_mean: 0.25, reward_low: 0.125, reward_high: 0.5 });
  const chart = rewardChart([step(0, null, measured), ...STEPS.slice(1)]);
  expect(plotData(chart).slice(5)).toEqual([
    [0.5, 0.5],
    [0.125, 0.125],
  ]);
  const { series, bands: drawn } = plotOptions(chart, STYLE);
  expect(series).toHaveLength(7);
  expect(drawn).toEqual([{ series: [5, 6], fill: "--c-valid--c-band-alpha" }]);
  expect(plotShape(chart)).not.toBe(plotShape(rewardChart(STEPS)));
});

test("stacked areas reach down to the one below", () => {
  const chart = toolChart(STEPS, "train", ["a", "b"]);
  expect(plotData(chart).slice(1, 3)).toEqual([
    [null, 2],
    [null, 3],
  ]);
  expect(bands(chart)).toEqual([{ series: [2, 1] }]);
});

test("bars are drawn from the top of the pile down, over a step each", () => {
  const failing = stats({ rollouts: 8, failures_by_code: { timeout: 2, server_error: 1 } });
  const chart = excludedChart([step(0, null, stats()), step(1, failing, null)], "train");
  expect(chart.series.map((one) => one.key)).toEqual(["server_error", "timeout"]);
  expect(plotData(chart)).toEqual([
    [0, 1],
    [null, 0.375],
    [null, 0.125],
  ]);
  const { series, scales } = plotOptions(chart, STYLE);
  expect(series.slice(1).map((one) => one.label)).toEqual(["timeout", "server error"]);
  expect(scales?.["x"]?.range).toBe(barRange);
  expect(barRange(null, 0, 1)).toEqual([-0.5, 1.5]);
  expect(barRange(null, null, null)).toEqual([0, 1]);
});

test("new data keeps the plot, a new series does not", () => {
  const before = plotShape(toolChart(STEPS, "train", ["a", "b"]));
  expect(plotShape(toolChart([...STEPS, step(2, stats({ tools: [tool("a", 1)] }), null)], "train", ["a", "b"]))).toBe(
    before,
  );
  expect(plotShape(toolChart(STEPS, "train", ["a", "b", "c"]))).not.toBe(before);
});

test("ranges", () => {
  expect(fromZero(3, 10)[0]).toBe(0);
  expect(fromZero(3, 10)[1]).toBeGreaterThan(10);
  expect(fromZero(null, null)).toEqual([0, 1]);
  expect(fromZero(0, 0)).toEqual([0, 1]);
  expect(xRange(null, 0, 0)).toEqual([0, 1]);
  expect(xRange(null, 0, 24)).toEqual([0, 24]);
  expect(xRange(null, 1.6, 3.2)).toEqual([1.6, 3.2]);
  expect(stepRange(null, 1.6, 3.2)).toEqual([1, 4]);
  expect(stepRange(null, 2, 2)).toEqual([2, 3]);
  expect(stepRange(null, null, null)).toEqual([0, 1]);
  expect(barRange(null, 1.6, 3.2)).toEqual([0.5, 4.5]);
});

test("ticks have the digits that tell them apart", () => {
  expect(tickLabels([0, 0.25, 0.5], undefined)).toEqual(["0.00", "0.25", "0.50"]);
  expect(tickLabels([0, 0.2, 0.4], undefined)).toEqual(["0.0", "0.2", "0.4"]);
  expect(tickLabels([0, 5, 10], undefined)).toEqual(["0", "5", "10"]);
  expect(tickLabels([0, 20_000], undefined)).toEqual(["0", "20k"]);
  expect(tickLabels([7500, 10_000, 12_500], undefined)).toEqual(["7500", "10.0k", "12.5k"]);
  expect(tickLabels([0, 2.5e-6, 1.25e-5], undefined)).toEqual(["0", "2.5e-6", "1.25e-5"]);
  expect(tickLabels([0, 0.05, 0.1], "percent")).toEqual(["0 %", "5 %", "10 %"]);
});

test("arrow keys come in from the side they move away from", () => {
  const steps = [0, 2, 3, 5, 8];
  expect(movedStep("ArrowRight", null, steps, null)).toBe(0);
  expect(movedStep("ArrowLeft", null, steps, null)).toBe(8);
  expect(movedStep("ArrowRight", 8, steps, null)).toBe(8);
  expect(movedStep("ArrowLeft", 3, steps, null)).toBe(2);
  expect(movedStep("Enter", 3, steps, null)).toBeNull();
  expect(movedStep("ArrowLeft", null, [], null)).toBeNull();
});

test("arrow keys keep the crosshair within the part that is looked at", () => {
  const [steps, zoom] = [[0, 2, 3, 5, 8], { from: 1, to: 6 }];
  expect(movedStep("ArrowRight", null, steps, zoom)).toBe(2);
  expect(movedStep("ArrowLeft", null, steps, zoom)).toBe(5);
  expect(movedStep("ArrowRight", 5, steps, zoom)).toBe(5);
  expect(movedStep("ArrowRight", 0, steps, zoom)).toBe(2);
  expect(movedStep("ArrowLeft", 8, steps, zoom)).toBe(5);
  expect(movedStep("ArrowRight", null, [0, 2.2, 2.4], { from: 2.3, to: 3 })).toBe(2.4);
  expect(movedStep("ArrowRight", null, [0, 1], { from: 2, to: 3 })).toBeNull();
});

test("an axis is zoomed in where it does not show all steps", () => {
  expect(zoomOf(STEPPED, [0, 10, 20], { min: 0, max: 20 })).toBeNull();
  expect(zoomOf(STEPPED, [0, 10, 20], { min: -0.5, max: 20.5 })).toBeNull();
  expect(zoomOf(STEPPED, [0, 10, 20], { min: 4.2, max: 20 })).toEqual({ from: 4, to: 20 });
  expect(zoomOf(STEPPED, [0, 10, 20], { min: 0, max: 9.1 })).toEqual({ from: 0, to: 10 });
  expect(zoomOf(STEPPED, [], { min: 1, max: 2 })).toBeNull();
  expect(zoomOf({ ...STEPPED, axis: { unit: "hours", steps: [] } }, [0, 10, 20], { min: 3.25, max: 3.5 })).toEqual({
    from: 3.25,
    to: 3.5,
  });
  expect(isSame(null, null)).toBe(true);
  expect(isSame({ from: 1, to: 2 }, { from: 1, to: 3 })).toBe(false);
});

const steps = (first: number, last: number) => ({ first, last, isWhole: true });

test("over time or rollouts a part is moved by parts of an hour, too", () => {
  const hours = extentOf({ steps: [0, 1.25, 2.5], axis: { unit: "hours", steps: [0, 1, 2] } });
  expect(hours).toEqual({ first: 0, last: 2.5, isWhole: false });
  expect(extentOf({ steps: [0, 7] })).toEqual(steps(0, 7));
  expect(extentOf({ steps: [] })).toBeNull();
  if (hours === null) return;
  expect(panned("ArrowRight", { from: 0.5, to: 1 }, hours)).toEqual({ from: 0.625, to: 1.125 });
  expect(shifted({ from: 0.5, to: 1 }, 0.25, hours)).toEqual({ from: 0.75, to: 1.25 });
  expect(shifted({ from: 0.5, to: 1 }, 9, hours)).toEqual({ from: 2, to: 2.5 });
});

test("Shift and an arrow key move the part that is looked at, as far as there are steps", () => {
  const zoom = { from: 100, to: 140 };
  expect(panned("ArrowRight", zoom, steps(0, 1000))).toEqual({ from: 110, to: 150 });
  expect(panned("ArrowLeft", zoom, steps(0, 1000))).toEqual({ from: 90, to: 130 });
  expect(panned("ArrowRight", zoom, steps(0, 144))).toEqual({ from: 104, to: 144 });
  expect(panned("ArrowRight", zoom, steps(0, 140))).toBeNull();
  expect(panned("ArrowLeft", { from: 0, to: 40 }, steps(0, 140))).toBeNull();
  expect(panned("ArrowRight", { from: 5, to: 6 }, steps(0, 140))).toEqual({ from: 6, to: 7 });
  expect(panned("Enter", zoom, steps(0, 1000))).toBeNull();
});

test("a part that is dragged along stays as wide, and within the steps there are", () => {
  expect(shifted({ from: 100, to: 140 }, 7.4, steps(0, 1000))).toEqual({ from: 107, to: 147 });
  expect(shifted({ from: 100, to: 140 }, -700, steps(20, 1000))).toEqual({ from: 20, to: 60 });
  expect(shifted({ from: 100, to: 140 }, 1e9, steps(20, 1000))).toEqual({ from: 960, to: 1000 });
});

test("a scale that is set to what it was asked for stays as wide, with bars, too", () => {
  const drawn = (kind: "bar" | "line"): Chart => ({
    steps: [0, 9],
    series: [{ ...line("a", "A", "--c", [1, 2]), kind }],
    isStacked: false,
  });
  const [min, max] = barRange(null, 3, 7);
  expect(askedRange(drawn("bar"), { min, max })).toEqual({ min: 3, max: 7 });
  expect(askedRange(drawn("line"), { min: 3, max: 7 })).toEqual({ min: 3, max: 7 });
  expect(askedRange(drawn("bar"), undefined)).toBeUndefined();
});
