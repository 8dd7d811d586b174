import type { SceneNode } from "../scene/scene";
import { browserMeasure, FONTS } from "../text/measure";
import { shortenMiddle } from "../text/shorten";
import { type Part, part } from "./parts";

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
