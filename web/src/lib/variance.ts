/** Rows by their mean as paths of a picture: a bar each, its standard deviation, its best. */
import type { RowSpread } from "../api/types";
import { csvTable } from "./chart_file";
import { count, plural } from "./format";

export interface Bars {
  width: number;
  height: number;
  /** The scale's ends: 0 and 1, or wider where a score lies beyond. */
  low: number;
  high: number;
  means: string;
  spreads: string;
  bests: string;
}

const WIDTH = 1000;
const HEIGHT = 220;
/** Of a row's width. */
const BAR = 0.8;
/** Bars of 0 are seen, too. */
const THIN = 1.5;

export function barsOf(rows: readonly RowSpread[]): Bars {
  const low = Math.min(0, ...rows.map((row) => row.mean));
  const high = Math.max(1, ...rows.map((row) => row.best));
  const step = WIDTH / Math.max(1, rows.length);
  const y = (value: number) => round(HEIGHT - ((clamp(value, low, high) - low) / (high - low)) * HEIGHT);
  const parts = rows.map((row, i) => {
    const [left, width] = [round(i * step), round(step * BAR)];
    const middle = round(left + width / 2);
    const top = Math.min(y(row.mean), HEIGHT - THIN);
    return {
      mean: `M${left} ${HEIGHT}V${top}h${width}V${HEIGHT}z`,
      spread: row.spread ? `M${middle} ${y(row.mean - row.spread)}V${y(row.mean + row.spread)}` : "",
      best: `M${left} ${y(row.best)}h${width}`,
    };
  });
  return {
    width: WIDTH,
    height: HEIGHT,
    low,
    high,
    means: parts.map((part) => part.mean).join(""),
    spreads: parts.map((part) => part.spread).join(""),
    bests: parts.map((part) => part.best).join(""),
  };
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** How many rows the picture is of. */
export function drawnOf(drawn: number, all: number, noun: string): string {
  return drawn < all ? `${count(drawn)} of ${plural(all, noun)} are drawn` : plural(all, noun);
}

/** The rows as other programs read them. */
export function spreadTable(rows: readonly RowSpread[], noun: string): string {
  const head = [noun, "samples", "mean", "standard deviation", "best"];
  return csvTable(
    head,
    rows.map((row) => [row.row_index, row.samples, row.mean, row.spread, row.best]),
  );
}
