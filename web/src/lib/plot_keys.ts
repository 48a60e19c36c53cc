/** What keys do in a chart. */
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
  const width = zoom.to - zoom.from;
  const wanted = zoom.from + direction * Math.max(1, Math.round(width / 4));
  const from = Math.max(first, Math.min(last - width, wanted));
  return from === zoom.from ? null : { from, to: from + width };
}
