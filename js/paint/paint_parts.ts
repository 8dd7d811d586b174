import type { Ink, InkWell } from "./ink";
import { seenWidth, textOpacity } from "./level_of_detail";
import { NAME_SCALE } from "./map_names";
import type { Part } from "./parts";

/** The part of a 2D context that drawing needs. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "setTransform"
  | "beginPath"
  | "roundRect"
  | "rect"
  | "arc"
  | "moveTo"
  | "lineTo"
  | "bezierCurveTo"
  | "fill"
  | "stroke"
  | "fillRect"
  | "strokeRect"
  | "fillText"
  | "strokeText"
  | "measureText"
  | "setLineDash"
  | "globalAlpha"
  | "fillStyle"
  | "strokeStyle"
  | "lineWidth"
  | "lineJoin"
  | "font"
  | "textAlign"
  | "textRendering"
>;

/** The place and size of a picture: device px per px of the scene, and the scene's origin. */
export interface Place2D {
  k: number;
  x: number;
  y: number;
  /** Device px for each px of the stage. */
  ratio: number;
}

/** Draw on a canvas the parts that `makePart` makes as elements, around a point of the scene. */
export function paintParts(
  pen: Pen,
  parts: readonly Part[],
  well: InkWell,
  place: Place2D,
  x = 0,
  y = 0,
  opacity = 1,
): void {
  for (const part of parts) paintPart(pen, part, well, place, x, y, opacity);
}

/** Parts that need their text, and its size, px. */
const TEXT_ONLY = /gw-edge-(label|count)/;
const TEXT_SIZE = 10;

function paintPart(
  pen: Pen,
  part: Part,
  around: InkWell,
  place: Place2D,
  x: number,
  y: number,
  opacity: number,
): void {
  if (part.tag === "title" || part.tag === "desc") return;
  const well = around.within(part);
  if (!well) return;
  const { attributes: at, content } = part;
  if (part.tag === "g") {
    const [dx, dy] = moveOf(at.transform);
    if (at.class === "gw-map-name" && typeof content !== "string") {
      const { k, ratio } = place;
      const size = ratio * NAME_SCALE;
      const there = { k: size, x: place.x + k * x, y: place.y + k * y, ratio };
      paintParts(pen, content, well, there, 0, 0, opacity);
      return;
    }
    const isText = TEXT_ONLY.test(`${at.class ?? ""}`);
    const seen = opacity * (isText ? textOpacity(TEXT_SIZE, place.k / place.ratio) : 1);
    if (seen > 0 && typeof content !== "string")
      paintParts(pen, content, well, place, x + dx, y + dy, seen);
    return;
  }
  const { ink } = well;
  pen.setTransform(place.k, 0, 0, place.k, place.x + place.k * x, place.y + place.k * y);
  if (part.tag === "text") {
    paintText(pen, part, well, place);
    return;
  }
  const number = (name: string) => Number(at[name] ?? 0);
  let path: Path2D | undefined;
  if (part.tag === "path") path = new Path2D(`${at.d}`);
  else {
    pen.beginPath();
    if (part.tag === "circle") pen.arc(number("cx"), number("cy"), number("r"), 0, 2 * Math.PI);
    else roundBox(pen, number("x"), number("y"), number("width"), number("height"), number("rx"));
  }
  pen.globalAlpha = ink.opacity * opacity;
  if (ink.fill !== null) {
    pen.fillStyle = ink.fill;
    if (path) pen.fill(path);
    else pen.fill();
  }
  if (prepareStroke(pen, ink, place)) {
    if (path) pen.stroke(path);
    else pen.stroke();
  }
}

/** A rectangle with corners as round as possible, as in SVG. */
export function roundBox(
  pen: Pick<Pen, "roundRect">,
  x: number,
  y: number,
  width: number,
  height: number,
  radius: number,
): void {
  pen.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}

/** Set up a stroke; false if there is none. */
function prepareStroke(pen: Pen, ink: Ink, { k, ratio }: Place2D): boolean {
  if (ink.stroke === null || ink.width === 0) return false;
  pen.strokeStyle = ink.stroke;
  pen.lineWidth = (seenWidth(ink.width, k / ratio) * ratio) / k;
  pen.setLineDash(ink.dash as number[]);
  return true;
}

function paintText(pen: Pen, { attributes, content }: Part, well: InkWell, place: Place2D): void {
  const { ink } = well;
  const opacity = ink.opacity * textOpacity(ink.fontSize, place.k / place.ratio);
  if (opacity === 0) return;
  pen.globalAlpha = opacity;
  const y = Number(attributes.y ?? 0);
  let x = Number(attributes.x ?? 0);
  if (typeof content === "string") {
    write(pen, content, ink, x, y, place);
    return;
  }
  for (const span of content) {
    const inner = well.within(span)?.ink ?? ink;
    if (typeof span.content !== "string") continue;
    write(pen, span.content, inner, x, y, place);
    x += pen.measureText(span.content).width;
  }
}

function write(pen: Pen, text: string, ink: Ink, x: number, y: number, place: Place2D): void {
  pen.font = ink.font;
  pen.textAlign = ink.align;
  pen.textRendering = ink.textRendering;
  if (ink.strokeFirst && prepareStroke(pen, ink, place)) pen.strokeText(text, x, y);
  if (ink.fill !== null) {
    pen.fillStyle = ink.fill;
    pen.fillText(text, x, y);
  }
}

/** The shift of `translate(x,y)`. */
function moveOf(transform: string | number | undefined): [number, number] {
  const found = /translate\(([^,]+),([^)]+)\)/.exec(`${transform ?? ""}`);
  return found ? [Number(found[1]), Number(found[2])] : [0, 0];
}
