/** What keys, and a drag with Shift, do in a chart. */
import type { Zoom } from "./plot";
import { type Chart, indexOf } from "./series";

/** The step to which an arrow key takes the crosshair, within the part that is looked at; it comes in from the side it
 * moves away from. Null for other keys, and where there are no steps. */
export function movedStep(
  key: string,
  step: number | null,
  steps: readonly number[],
  zoom: Zoom | null,
): number | null {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (move === undefined) return null;
  const begin = zoom === null ? 0 : steps.findIndex((one) => one >= zoom.from);
  const first = begin < 0 ? steps.length : begin;
  const last = zoom === null ? steps.length - 1 : (indexOf(steps, zoom.to) ?? -1);
  if (last < first) return null;
  const from = (step === null ? null : indexOf(steps, step)) ?? (move > 0 ? first - 1 : last + 1);
  return steps[Math.min(last, Math.max(first, from + move))] ?? null;
}

/** What there is along an axis. */
export interface Extent {
  first: number;
  last: number;
  /** Of steps, of which there are no halves; hours and rollouts are gone through in parts. */
  isWhole: boolean;
}

/** Of a chart's axis; null where it shows nothing. */
export function extentOf({ steps, axis }: Pick<Chart, "steps" | "axis">): Extent | null {
  const [first, last] = [steps[0], steps.at(-1)];
  return first === undefined || last === undefined ? null : { first, last, isWhole: axis === undefined };
}

/** Where Shift and an arrow key take a part that is looked at: a quarter of it on, within what there is. Null for other
 * keys, and where there is nothing further. */
export function panned(key: string, zoom: Zoom, extent: Extent): Zoom | null {
  const direction = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (direction === undefined) return null;
  const quarter = (zoom.to - zoom.from) / 4;
  const moved = shifted(zoom, direction * (extent.isWhole ? Math.max(1, Math.round(quarter)) : quarter), extent);
  return moved.from === zoom.from ? null : moved;
}

/** A part so far on, within what there is. */
export function shifted(zoom: Zoom, by: number, { first, last, isWhole }: Extent): Zoom {
  const width = zoom.to - zoom.from;
  const from = Math.max(first, Math.min(last - width, zoom.from + (isWhole ? Math.round(by) : by)));
  return { from, to: from + width };
}
