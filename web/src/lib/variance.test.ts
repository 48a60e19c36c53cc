import { expect, test } from "vitest";
import { barsOf, drawnOf } from "./variance";

const row = (mean: number, best: number, spread: number | null = null) => ({
  row_index: 0,
  samples: 2,
  mean,
  best,
  spread,
});

test("every row has a bar, also one whose samples all earned nothing", () => {
  const bars = barsOf([row(0, 0, 0), row(0.5, 1, 0.5), row(1, 1, 0)]);
  expect(bars.means.match(/z/g)).toHaveLength(3);
  expect(bars.means.startsWith(`M0 220V218.5h`)).toBe(true);
  expect(bars.bests.match(/M/g)).toHaveLength(3);
});

test("only rows that differ have a spread, which stays within the picture", () => {
  const { spreads } = barsOf([row(0, 0, 0), row(0.9, 1, 0.5), row(1, 1)]);
  expect(spreads.match(/M/g)).toHaveLength(1);
  expect(spreads.endsWith("V0")).toBe(true);
});

test("scores of another scale have their own", () => {
  expect(barsOf([row(-2, 3), row(5, 7)])).toMatchObject({ low: -2, high: 7 });
  expect(barsOf([row(0.2, 0.4)])).toMatchObject({ low: 0, high: 1 });
});

test("a picture of some rows says so", () => {
  expect(drawnOf(40, 200, "row")).toBe("40 of 200 rows are drawn");
  expect(drawnOf(1, 1, "row")).toBe("1 row");
  expect(drawnOf(12, 12, "item")).toBe("12 items");
});
