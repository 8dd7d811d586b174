import type { SceneNode } from "../scene/scene";
import { browserMeasure, FONTS } from "../text/measure";
import { shortenMiddle } from "../text/shorten";
import { type Part, part } from "./parts";

/** Names on a map are seen at this size whatever the scale; in their own style they are larger. px */
const SIZE = 10;
export const NAME_SCALE = SIZE / FONTS.title.size;
/** Of a name as it is seen, px: the height of a line, and what is left free around it. */
const LINE = 12;
const FREE = 4;
/** A name that is shortened to less than this says nothing. */
const LEAST = 6;

/**
 * The name of a node as it is written from afar, as on a map: always as large, and as much of it as there is room for in
 * the box; "" where that is too little, and the box is one shape with its colour.
 */
export function mapName({ shape, leaf, bar }: SceneNode, scale: number): string {
  // A bar is its height; its name is beside it.
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

/** How wide a name is seen, px. */
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
