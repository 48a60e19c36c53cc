import { expect, test } from "vitest";
import type { PolicyChange, RowChange, Step } from "../api/types";
import { byChange, dots, leftOut, measuredSteps, quadrants, rewardWords } from "./policy_change";

const figures = (reward: number, calls: number) => ({
  rollouts: 1,
  reward,
  tool_calls: calls,
  completion_tokens: 10 * calls,
  duration_s: calls,
  trace_id: "trace_1",
});
const row = (index: number, before: [number, number], after: [number, number]): RowChange => ({
  row_index: index,
  before: figures(...before),
  after: figures(...after),
});
const ROWS = [
  row(0, [0, 6], [1, 2]),
  row(1, [0, 2], [0.5, 2]),
  row(2, [0, 2], [1, 5]),
  row(3, [1, 5], [0, 3]),
  row(4, [1, 2], [0.5, 4]),
  row(5, [1, 2], [1, 9]),
];

test("every row lies in one quadrant, or earned the same", () => {
  const counts = quadrants(ROWS, "tool_calls");
  expect(counts).toEqual({ betterLess: 2, betterMore: 1, worseLess: 1, worseMore: 1, same: 1 });
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(ROWS.length);
});

test("the picture's edges are the largest changes", () => {
  const picture = dots(ROWS, "tool_calls");
  expect([picture.x, picture.y]).toEqual([7, 1]);
  expect(picture.dots[0]).toMatchObject({ x: -4 / 7, y: 1 });
  expect(dots([], "duration_s").dots).toEqual([]);
});

test("what got worse comes first, and what stayed is left out", () => {
  expect(byChange(ROWS).map((one) => one.row_index)).toEqual([3, 4, 1, 0, 2]);
});

test("rewards that differ by rounding alone are the same, however large, as for the API", () => {
  const large = 1e9;
  const rows = [
    row(0, [large, 2], [large * (0.6 + 0.3 + 0.1), 2]),
    row(1, [large * (0.6 + 0.3 + 0.1), 2], [large, 2]),
    row(2, [0, 2], [large / 2, 2]),
    row(3, [0, 2], [5e-9, 2]),
  ];
  expect(quadrants(rows, "tool_calls")).toEqual({ betterLess: 1, betterMore: 0, worseLess: 0, worseMore: 0, same: 3 });
  expect(byChange(rows).map((one) => one.row_index)).toEqual([2]);
});

test("only steps that were measured can be chosen", () => {
  const step = (number: number, valid: object | null) => ({ step: number, record: { valid } }) as unknown as Step;
  expect(measuredSteps([step(0, {}), step(1, null), step(2, {})])).toEqual([0, 2]);
});

test("rows whose rewards all changed alike are compared, without an interval", () => {
  const told = (data: RowChange[], reward: object | null) => rewardWords({ data, reward } as PolicyChange);
  expect(told([], null)).toBe("no row was graded under both policies");
  expect(told(ROWS.slice(0, 2), null)).toBe("2 rows: nothing tells how their differences spread");
  const reward = { difference: 0.5, low: 0.1, high: 0.9, rows: 6, better: 3, worse: 2, same: 1 };
  expect(told(ROWS, reward)).toBe("row by row +0.500 [+0.100, +0.900]: 3 better, 2 worse, 1 the same");
});

test("what is not compared is told of either policy", () => {
  const told = (before: object, after: object) =>
    leftOut({ before: 0, after: 8, left_out_before: before, left_out_after: after } as PolicyChange);
  const nothing = { rows: 0, excluded_rollouts: 0 };
  expect(told(nothing, { rows: 0, excluded_rollouts: null })).toBe(null);
  expect(told({ rows: 2, excluded_rollouts: 0 }, { rows: 0, excluded_rollouts: 1 })).toBe(
    "Left out: 2 rows graded at step 0 alone, 1 excluded rollout of step 8.",
  );
});
