import { perObject } from "../maps";
import type { Scene, SceneNode } from "../scene/scene";
import { browserMeasure, FONTS } from "../text/measure";
import { shortenMiddle } from "../text/shorten";
import { type Part, part } from "./parts";

/** The detail and the painter at each scale. Scales are px of the stage per px of the scene. */

/** Elements are crisp and can be styled; a canvas can show very many nodes. */
export type PainterKind = "svg" | "canvas";

/** Below this scale no text can be read. */
export const FAR = 0.4;
/** The most visible nodes that are drawn as elements. */
const MOST_ELEMENTS = 300;
const FEW_ELEMENTS = 240;
/** Neither scale nor number flips the painter back at once. */
const SLACK = 0.1;
/** Below this scale a node is its box, without badges, stubs and texts. */
const PLAIN = 0.2;
/** Below this scale names are written as on a map: of a board, and of any other picture. */
const MAP = { board: 0.54, other: 0.72 };
/** From this scale on the finest letters are readable, and written. */
const CLOSE = 11 / FONTS.fine.size;
/** Between these scales boxes take on the colour of their outlines, which is all that is left of them further out. */
const SOLID = { from: 0.2, to: 0.08 };
/** Texts fade between these sizes, px. */
const READABLE_TEXT = { none: 2.6, all: 3.6 };
/** Titles of open groups are not drawn smaller than at this scale. */
const TITLE = 0.72;

/** Who is to draw so many visible nodes at this scale; who draws now keeps on a little longer. */
export function painterFor(
  scale: number,
  visible: number,
  now: PainterKind | null = null,
): PainterKind {
  if (now === "canvas")
    return scale >= FAR * (1 + SLACK) && visible <= FEW_ELEMENTS ? "svg" : "canvas";
  const least = now === "svg" ? FAR * (1 - SLACK) : FAR;
  return scale < least || visible > MOST_ELEMENTS ? "canvas" : "svg";
}

/** Whether nodes and edges have all their details. */
export function isDetailed(scale: number): boolean {
  return scale >= PLAIN;
}

/** Whether the facts that are read only from close are shown. */
export function isClose(scale: number): boolean {
  return scale >= CLOSE;
}

/** The scale below which a picture's node texts are illegible, and names are written as on a map. */
export const mapScale = perObject(({ nodes }: Scene) =>
  nodes.every(({ shape, quiet }) => shape.card || quiet) ? MAP.board : MAP.other,
);

/** The visible width of a line that is `width` wide in the scene, px: from afar no thinner than at the scale `FAR`. */
export function seenWidth(width: number, scale: number): number {
  return width * Math.max(scale, FAR);
}

/** The opacity of a text of this size, 0 to 1: illegible text would be noise. */
export function textOpacity(size: number, scale: number): number {
  return ramp(size * scale, READABLE_TEXT.none, READABLE_TEXT.all);
}

/** The share of the outline's colour in a box, 0 to 1. */
export function solidity(scale: number): number {
  return ramp(scale, SOLID.from, SOLID.to);
}

/** The enlargement of open groups' titles. */
export function titleScale(scale: number): number {
  return Math.max(1, TITLE / scale);
}

function ramp(value: number, none: number, all: number): number {
  return Math.max(0, Math.min(1, (value - none) / (all - none)));
}

/** The visible size of names on a map; larger in their own style. px */
const SIZE = 10;
export const NAME_SCALE = SIZE / FONTS.title.size;
/** The visible height of a name's line, and the free space around it, px. */
const LINE = 12;
const FREE = 4;
/** A name shortened further is useless. */
const LEAST = 6;

/** A node's name from afar, as on a map: at a constant size, shortened to its box; "" without enough room. */
export function mapName({ shape, leaf, bar }: SceneNode, scale: number): string {
  // A bar's name is beside it.
  if (bar || shape.height * scale < LINE + 2) return "";
  const { texts } = shape;
  const title = texts.find(({ style }) => style === "title") ?? texts[0];
  const name = texts.find(({ style }) => style === "card" || style === "label" || style === "flag");
  const room = shape.width * scale - FREE;
  for (const found of leaf ? [title, name] : [name, title]) {
    const text = found?.text ?? "";
    if (text !== "" && widthOf(text) <= room) return text;
  }
  const short = shortenMiddle(title?.text ?? "", room, widthOf);
  return short.length >= LEAST ? short : "";
}

const measure = browserMeasure();

/** The visible width of a name, px. */
function widthOf(name: string): number {
  return measure(name, "title") * NAME_SCALE;
}

/** A name in the middle of its box, at the same size at every scale. */
export function mapNameParts(name: string): Part[] {
  if (name === "") return [];
  const text = part(
    "text",
    { class: "gw-text gw-text-title gw-text-head", "text-anchor": "middle", y: 4.5 },
    name,
  );
  return [part("g", { class: "gw-map-name" }, [text])];
}
