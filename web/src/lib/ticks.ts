/** Labels of an axis. */
import { fixed } from "./format";

/** Ticks with as many digits as tell them apart. */
export function tickLabels(ticks: readonly number[], unit: "percent" | undefined): string[] {
  if (unit === "percent")
    return tickLabels(
      ticks.map((tick) => tick * 100),
      undefined,
    ).map((label) => `${label} %`);
  const [first = 0, second = first + 1] = ticks;
  const digits = digitsOf(Math.abs(second - first));
  return ticks.map((tick) => (Math.abs(tick) >= 10_000 ? `${fixed(tick / 1000, digits)}k` : fixed(tick, digits)));
}

/** Digits after the point that `value` needs, six at most. */
function digitsOf(value: number): number {
  for (let digits = 0; digits < 6; digits += 1) {
    const scaled = value * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return digits;
  }
  return 6;
}
