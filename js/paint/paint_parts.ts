import type { Ink, InkWell } from "./ink";
import { NAME_SCALE, seenWidth, textOpacity } from "./level_of_detail";
import type { Part } from "./parts";

export type Pen = CanvasRenderingContext2D;

/** The place and size of a picture: device px per px of the scene, and the scene's origin. */
export interface Place2D {
  k: number;
  x: number;
  y: number;
  /** Device px for each px of the stage. */
  ratio: number;
}

/** Parts that need their text, and its size, px. */
const TEXT_ONLY = /gw-edge-(label|count)/;
const TEXT_SIZE = 10;

/** Draw on a canvas the parts that `makePart` makes as elements. */
export class PartPainter {
  constructor(
    private readonly pen: Pen,
    private readonly place: Place2D,
  ) {}

  /** Draw parts around a point of the scene. */
  paint(parts: readonly Part[], well: InkWell, x = 0, y = 0, opacity = 1): void {
    for (const part of parts) this.paintPart(part, well, x, y, opacity);
  }

  private paintPart(part: Part, around: InkWell, x: number, y: number, opacity: number): void {
    if (part.tag === "title" || part.tag === "desc") return;
    const well = around.within(part);
    if (!well) return;
    if (part.tag === "g") {
      this.paintGroup(part, well, x, y, opacity);
      return;
    }
    const { pen, place } = this;
    const { ink } = well;
    pen.setTransform(place.k, 0, 0, place.k, place.x + place.k * x, place.y + place.k * y);
    if (part.tag === "text") {
      this.paintText(part, well);
      return;
    }
    const number = (name: string) => Number(part.attributes[name] ?? 0);
    let path: Path2D | undefined;
    if (part.tag === "path") path = new Path2D(`${part.attributes.d}`);
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
    if (this.prepareStroke(ink)) {
      if (path) pen.stroke(path);
      else pen.stroke();
    }
  }

  private paintGroup(
    { attributes, content }: Part,
    well: InkWell,
    x: number,
    y: number,
    opacity: number,
  ): void {
    if (typeof content === "string") return;
    const { pen, place } = this;
    const { k, ratio } = place;
    if (attributes.class === "gw-map-name") {
      const there = { k: ratio * NAME_SCALE, x: place.x + k * x, y: place.y + k * y, ratio };
      new PartPainter(pen, there).paint(content, well, 0, 0, opacity);
      return;
    }
    const [dx, dy] = moveOf(attributes.transform);
    const isText = TEXT_ONLY.test(`${attributes.class ?? ""}`);
    const seen = opacity * (isText ? textOpacity(TEXT_SIZE, k / ratio) : 1);
    if (seen > 0) this.paint(content, well, x + dx, y + dy, seen);
  }

  /** Set up a stroke; false if there is none. */
  private prepareStroke(ink: Ink): boolean {
    if (ink.stroke === null || ink.width === 0) return false;
    const { pen } = this;
    const { k, ratio } = this.place;
    pen.strokeStyle = ink.stroke;
    pen.lineWidth = (seenWidth(ink.width, k / ratio) * ratio) / k;
    pen.setLineDash(ink.dash as number[]);
    return true;
  }

  private paintText({ attributes, content }: Part, well: InkWell): void {
    const { pen, place } = this;
    const { ink } = well;
    const opacity = ink.opacity * textOpacity(ink.fontSize, place.k / place.ratio);
    if (opacity === 0) return;
    pen.globalAlpha = opacity;
    const y = Number(attributes.y ?? 0);
    let x = Number(attributes.x ?? 0);
    if (typeof content === "string") {
      this.write(content, ink, x, y);
      return;
    }
    for (const span of content) {
      if (typeof span.content !== "string") continue;
      this.write(span.content, well.within(span)?.ink ?? ink, x, y);
      x += pen.measureText(span.content).width;
    }
  }

  private write(text: string, ink: Ink, x: number, y: number): void {
    const { pen } = this;
    pen.font = ink.font;
    pen.textAlign = ink.align;
    pen.textRendering = ink.textRendering;
    if (ink.strokeFirst && this.prepareStroke(ink)) pen.strokeText(text, x, y);
    if (ink.fill !== null) {
      pen.fillStyle = ink.fill;
      pen.fillText(text, x, y);
    }
  }
}

/** A rectangle with corners as round as possible, as in SVG. */
export function roundBox(
  pen: Pen,
  x: number,
  y: number,
  width: number,
  height: number,
  radius: number,
) {
  pen.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}

/** The shift of `translate(x,y)`. */
function moveOf(transform: string | number | undefined): [number, number] {
  const found = /translate\(([^,]+),([^)]+)\)/.exec(`${transform ?? ""}`);
  return found ? [Number(found[1]), Number(found[2])] : [0, 0];
}
