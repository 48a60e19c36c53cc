/** A small curve as an SVG path. */
import type { Values } from "./series";

/** At most `buckets` means over neighbours; gaps hold nothing and are left out. */
export function bucketed(values: Values, buckets: number): number[] {
  const present = values.filter((value): value is number => value !== null);
  if (present.length <= buckets) return present;
  return Array.from({ length: buckets }, (_, i) => {
    const from = Math.floor((i * present.length) / buckets);
    const part = present.slice(from, Math.floor(((i + 1) * present.length) / buckets));
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
}

/** `M0,12L4,9...` in a box of `width` x `height`; empty for fewer than two points. */
export function sparkPath(values: readonly number[], range: [number, number], width: number, height: number): string {
  if (values.length < 2) return "";
  const [low, high] = range;
  const span = high - low || 1;
  const points = values.map((value, i) => {
    const x = (i / (values.length - 1)) * width;
    const y = height - ((value - low) / span) * height;
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return `M${points.join("L")}`;
}
