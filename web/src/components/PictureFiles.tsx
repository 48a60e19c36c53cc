import { useRef } from "react";
import { chartFileName } from "../lib/chart_file";
import { save } from "../lib/save";

interface Props {
  /** What the files are named after. */
  owner: string;
  title: string;
  csv(): string;
}

const WIDTH_PX = 1200;

/** Takes the drawing beside it away: its values as a table, what is seen as a picture. Both stand in one parent. */
export function PictureFiles({ owner, title, csv }: Props) {
  const own = useRef<HTMLSpanElement>(null);
  const onCsv = () => save(new Blob([csv()], { type: "text/csv" }), chartFileName(owner, title, "csv"));
  const onPng = () => {
    const svg = own.current?.parentElement?.querySelector("svg");
    if (svg) painted(svg).toBlob((png) => png && save(png, chartFileName(owner, title, "png")));
  };
  return (
    <span className="chart-files" ref={own}>
      <button type="button" className="quiet" aria-label={`${title} as CSV`} onClick={onCsv}>
        CSV
      </button>
      <button type="button" className="quiet" aria-label={`${title} as PNG`} onClick={onPng}>
        PNG
      </button>
    </span>
  );
}

/** A drawing of lines, circles, paths and texts as a picture in the page's colours. Painted by hand: the page may load no
 * picture that it made itself. */
function painted(svg: SVGSVGElement): HTMLCanvasElement {
  const { x, y, width, height } = svg.viewBox.baseVal;
  const { width: shownWidth, height: shownHeight } = svg.getBoundingClientRect();
  const picture = document.createElement("canvas");
  picture.width = WIDTH_PX;
  picture.height = (WIDTH_PX * shownHeight) / shownWidth;
  const pen = picture.getContext("2d");
  if (pen === null) return picture;
  pen.fillStyle = getComputedStyle(document.body).getPropertyValue("--surface");
  pen.fillRect(0, 0, picture.width, picture.height);
  pen.scale(picture.width / width, picture.height / height);
  pen.translate(-x, -y);
  for (const shape of svg.querySelectorAll<SVGElement>("line, circle, path, text")) {
    const css = getComputedStyle(shape);
    pen.fillStyle = css.fill;
    pen.strokeStyle = css.stroke;
    pen.lineWidth = Number.parseFloat(css.strokeWidth) || 1;
    pen.globalAlpha = Number(css.fillOpacity);
    if (shape instanceof SVGTextElement) {
      pen.font = `${css.fontSize} ${css.fontFamily}`;
      pen.textAlign = css.textAnchor === "end" ? "right" : "left";
      pen.fillText(shape.textContent ?? "", at(shape, "x"), at(shape, "y"));
      continue;
    }
    const outline = outlineOf(shape);
    if (css.fill !== "none" && !(shape instanceof SVGLineElement)) pen.fill(outline);
    if (css.stroke !== "none") pen.stroke(outline);
  }
  return picture;
}

function outlineOf(shape: SVGElement): Path2D {
  if (shape instanceof SVGPathElement) return new Path2D(shape.getAttribute("d") ?? "");
  const outline = new Path2D();
  if (shape instanceof SVGCircleElement) outline.arc(at(shape, "cx"), at(shape, "cy"), at(shape, "r"), 0, 2 * Math.PI);
  else {
    outline.moveTo(at(shape, "x1"), at(shape, "y1"));
    outline.lineTo(at(shape, "x2"), at(shape, "y2"));
  }
  return outline;
}

function at(shape: SVGElement, attribute: string): number {
  return Number(shape.getAttribute(attribute) ?? 0);
}
