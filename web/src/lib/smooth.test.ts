import { expect, test } from "vitest";
import { smoothed, smoothingWindow } from "./smooth";

test("a level curve stays where it is, from its first value on", () => {
  expect(smoothed([0.5, 0.5, null, 0.5], 5)).toEqual([0.5, 0.5, null, 0.5].map((v) => v && expect.closeTo(v)));
});

test("scatter becomes smaller and the course stays", () => {
  const noisy = Array.from({ length: 200 }, (_, i) => i / 200 + (i % 2 ? 0.2 : -0.2));
  const calm = smoothed(noisy, 20);
  const jumps = (values: (number | null)[]) =>
    values.slice(1).reduce<number>((sum, value, i) => sum + Math.abs((value ?? 0) - (values[i] ?? 0)), 0);
  expect(jumps(calm)).toBeLessThan(jumps(noisy) / 5);
  expect(calm.at(-1)).toBeGreaterThan(0.85);
});

test("a window of one changes nothing", () => {
  expect(smoothed([1, 3, 2], 1)).toEqual([1, 3, 2]);
  expect(smoothingWindow(10)).toBe(3);
  expect(smoothingWindow(1000)).toBe(50);
});
