/** Marks at steps, drawn behind the curves. */
import type uPlot from "uplot";
import type { PlotStyle } from "./plot";

const DASH = 3;
const HEAD = 4;

/** A dashed line over the whole height with a head on top, for each mark that is in sight. */
export function drawMarkers(plot: uPlot, style: Pick<PlotStyle, "color" | "markers">): void {
  const { ctx: pen, bbox: box } = plot;
  const { min, max } = plot.scales["x"] ?? {};
  if (min == null || max == null) return;
  const ratio = devicePixelRatio;
  pen.save();
  pen.lineWidth = ratio;
  for (const marker of style.markers?.() ?? []) {
    const place = marker.place ?? marker.step;
    if (place < min || place > max) continue;
    const x = Math.round(plot.valToPos(place, "x", true));
    pen.strokeStyle = pen.fillStyle = style.color(marker.color);
    pen.setLineDash([DASH * ratio, DASH * ratio]);
    pen.globalAlpha = 0.55;
    pen.beginPath();
    pen.moveTo(x, box.top);
    pen.lineTo(x, box.top + box.height);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.moveTo(x - HEAD * ratio, box.top);
    pen.lineTo(x + HEAD * ratio, box.top);
    pen.lineTo(x, box.top + HEAD * 1.5 * ratio);
    pen.fill();
  }
  pen.restore();
}
