/** What keys, and a drag with Shift, do in a chart. */
import type { Zoom } from "./plot";

/** Where an arrow key takes the crosshair; it comes in from the side it moves away from. Null for other keys. */
export function movedIndex(key: string, index: number | null, length: number): number | null {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (move === undefined || length === 0) return null;
  const from = index ?? (move > 0 ? -1 : length);
  return Math.min(length - 1, Math.max(0, from + move));
}

/** Where Shift and an arrow key take a part that is looked at: a quarter of it on, within the steps there are. Null for
 * other keys, and where there is nothing further. */
export function panned(key: string, zoom: Zoom, first: number, last: number): Zoom | null {
  const direction = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (direction === undefined) return null;
  const moved = shifted(zoom, direction * Math.max(1, Math.round((zoom.to - zoom.from) / 4)), first, last);
  return moved.from === zoom.from ? null : moved;
}

/** A part so many steps on, within the steps there are. */
export function shifted(zoom: Zoom, by: number, first: number, last: number): Zoom {
  const width = zoom.to - zoom.from;
  const from = Math.max(first, Math.min(last - width, zoom.from + Math.round(by)));
  return { from, to: from + width };
}
