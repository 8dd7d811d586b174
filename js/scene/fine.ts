import { FONTS } from "../text/measure";
import { formatShape, oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel, NodeModel } from "../wire";
import { classOf } from "./module_class";
import type { NodeShape, Text } from "./node_shape";
import { valueText } from "./node_words";
import type { SceneNode } from "./scene";

/** The mean width of a letter, px. */
const LETTER = 0.56 * FONTS.fine.size;
/** From a border to a baseline under and over it, and from its side to a text, px. */
export const FINE = { under: 6.6, over: 1.8, aside: 5 };
/** From a bar to the line under its name, px, and the width of that line in bars. */
const UNDER_NAME = 27;
const BESIDE = 1.12;

/**
 * The facts that are read only from close: in the free room of a sign or a closed box, or under a bar.
 * Nothing else moves for them. `bar`: the width of a bar, px.
 */
export function fineTexts(
  graph: GraphModel,
  { id, group }: Pick<SceneNode, "id" | "group">,
  shape: NodeShape,
  bar: number | null = null,
): Text[] {
  const node = graph.nodes[id];
  const { tile } = shape;
  if (shape.ranks) return [];
  if (bar !== null) return barFacts(node, shape, bar);
  if (group && tile) return boxFacts(graph, group.paths[0], node, shape, tile.rest);
  return shape.sign === "plain" ? signFacts(node, shape) : [];
}

/** A sign: torch's class above it, its value below. Its gradient comes beside that. */
function signFacts(node: NodeModel, { width, height }: NodeShape): Text[] {
  const left = FINE.aside - width / 2;
  const room = width - 2 * FINE.aside;
  const baseline = height / 2 - FINE.over;
  const { value, shape } = node;
  const number = value === null ? [] : fine(valueText(node, value), left, baseline, room / 2);
  const sizes = shape?.length ? fine(formatShape(shape), left, baseline, room / 2) : [];
  const below = number.length > 0 ? number.map((text) => ({ ...text, room: room / 2 })) : sizes;
  return [...fine(oneLine(node.op), left, FINE.under - height / 2, room, true), ...below];
}

/** A closed box: its class above, its output's shape and its size below. */
function boxFacts(
  graph: GraphModel,
  path: string,
  output: NodeModel,
  { width, height, flagHeight, texts, tile }: NodeShape,
  size: string,
): Text[] {
  const room = width - 2 * FINE.aside;
  const kind = classOf(graph, path);
  const isWritten = kind === null || texts.some(({ text }) => text === kind);
  const above = isWritten
    ? []
    : fine(kind, 0, FINE.under - height / 2 + flagHeight, room, true, "middle");
  const sizes = output.shape?.length ? [formatShape(output.shape)] : [];
  const count = tile?.number === null ? [] : [`${size.replace(" params", "")} params`];
  const baseline = height / 2 - (tile?.under ?? 0) - FINE.over;
  const below = [[...sizes, ...count], sizes, count]
    .map((facts) => fine(facts.join(" · "), 0, baseline, room, false, "middle"))
    .find((found) => found.length > 0);
  return [...above, ...(below ?? [])];
}

/** A bar: the shape of its block's output, under its name. */
function barFacts({ shape }: NodeModel, { height }: NodeShape, bar: number): Text[] {
  if (!shape?.length) return [];
  return fine(formatShape(shape), 0, height / 2 + UNDER_NAME, BESIDE * bar, false, "middle");
}

/** A text, if it fits or may be cut. */
function fine(
  words: string,
  x: number,
  y: number,
  room: number,
  canCut = false,
  anchor: Text["anchor"] = "start",
): Text[] {
  const most = Math.floor(room / LETTER);
  const text = canCut ? shortenMiddle(words, most, ({ length }) => length) : words;
  return text !== "" && isFine(text, room) ? [{ text, style: "fine", x, y, anchor }] : [];
}

/** Whether a text of the finest letters fits. */
export function isFine(text: string, room: number): boolean {
  return text.length <= Math.floor(room / LETTER);
}
