/** Labels of an axis. */
import { fixed } from "./format";

/** What is apart by less is told in powers of ten, as learning rates are. */
const SMALL = 1e-4;

/** Ticks with as many digits as tell them apart. */
export function tickLabels(ticks: readonly number[], unit: "percent" | undefined): string[] {
  if (unit === "percent")
    return tickLabels(
      ticks.map((tick) => tick * 100),
      undefined,
    ).map((label) => `${label} %`);
  const [first = 0, second = first + 1] = ticks;
  const apart = Math.abs(second - first);
  if (apart < SMALL) return ticks.map((tick) => (tick === 0 ? "0" : Number(tick.toPrecision(6)).toExponential()));
  const [digits, digitsOfThousands] = [digitsOf(apart), digitsOf(apart / 1000)];
  return ticks.map((tick) =>
    Math.abs(tick) >= 10_000 ? `${fixed(tick / 1000, digitsOfThousands)}k` : fixed(tick, digits),
  );
}

/** Digits after the point that `value` needs, six at most. */
function digitsOf(value: number): number {
  for (let digits = 0; digits < 6; digits += 1) {
    const scaled = value * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return digits;
  }
  return 6;
}
