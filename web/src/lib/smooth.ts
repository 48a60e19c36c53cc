/** A curve without its scatter. */
import type { Values } from "./series";

/** Exponential mean that looks back over about `steps` values, unbiased at its beginning (Kingma and Ba 2015, section
 * 3). Gaps stay gaps. */
export function smoothed(values: Values, steps: number): Values {
  const keep = 1 - 2 / (Math.max(1, steps) + 1);
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = keep * sum + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return sum / weight;
  });
}

/** Over how many steps a course of so many is smoothed. */
export function smoothingWindow(steps: number): number {
  return Math.max(3, Math.round(steps / 20));
}
