import { type Direction, isHorizontal } from "../layout/direction";
import type { Measure, Style } from "../text/measure";
import { cardOf, inputSize, tallCard } from "./card";
import type { Place } from "./grid";
import type { CardSize, NodeShape, StubShape, Text } from "./node_shape";
import type { NodeWords } from "./node_words";
import { withStrip } from "./rank_strip";
import { rowTexts, rowWidth, tileOf } from "./tile";

/** Sizes of a box, px. */
export type BoxSize = Pick<NodeShape, "width" | "height">;

/** A node's shape without its stubs. */
type Plain = Pick<
  NodeShape,
  "width" | "height" | "flagHeight" | "texts" | "card" | "tile" | "withSum"
>;

const PAD = 14;
const PILL_PAD = 17;
/** A constant is a small chip. */
const QUIET_PAD = 9;
const QUIET_WIDTH = 28;
const QUIET_LESS = 6;
const LINE = 15;
const FLAG = 17;
const LEAST_WIDTH = 46;
const STUB_LINE = 14;
const STUB_MARK = 3.5;
const STUB_ROW = 13;
const OUTLINE = 4;

/** Size a node by its words, as a card or a plain box, with stubs on the side without edges. */
export function shapeOf(
  words: NodeWords,
  leaf: boolean,
  direction: Direction,
  measure: Measure,
  least: BoxSize = { width: 0, height: 0 },
  card: CardSize | null = null,
): NodeShape {
  const horizontal = isHorizontal(direction);
  const stubRows = words.stubs.length;
  const stubWidth = stubWidthOf(words, measure);
  const room = stubRows > 0 && horizontal ? stubWidth + 34 : 0;
  const plain: Plain = words.tile
    ? tileOf(words, measure, least.width)
    : card
      ? cardOf(words, { size: card, leaf, direction, least: Math.max(room, least.width) }, measure)
      : boxOf(words, leaf, horizontal, measure, least);
  const fitted = (given: Plain) => {
    const tall = card && !words.tile ? tallCard(given, least.height) : given;
    return words.hasStrip ? withStrip(tall, leaf && !card) : tall;
  };
  const box = fitted(plain);
  if (plain.withSum) box.withSum = fitted({ ...plain, ...plain.withSum });
  const { width, height } = box;
  const stubs = words.stubs.map((stub, i): StubShape => {
    if (horizontal) {
      const left = -width / 2 + 16;
      const markY = height / 2 + 11 + i * STUB_ROW;
      const from = i === 0 ? height / 2 : markY - STUB_ROW + STUB_MARK;
      return {
        ...stub,
        line: [left, from, left, markY - STUB_MARK],
        x: left,
        y: markY,
        text: { x: left + STUB_MARK + 5, y: markY + 3.5 },
      };
    }
    const y = (i - (stubRows - 1) / 2) * STUB_ROW;
    const markX = width / 2 + STUB_LINE + STUB_MARK;
    return {
      ...stub,
      line: [width / 2, y, markX - STUB_MARK, y],
      x: markX,
      y,
      text: { x: markX + STUB_MARK + 4, y: y + 3.5 },
    };
  });
  const side = stubRows === 0 || horizontal ? 0 : STUB_LINE + 2 * STUB_MARK + 4 + stubWidth;
  const outline = words.flag === null || card ? 0 : OUTLINE;
  const below = stubRows === 0 || !horizontal ? 0 : 11 + stubRows * STUB_ROW - 5;
  const { sign = null } = box.card ?? {};
  const [beside, under] = sign ? beyond(sign, box) : [0, 0];
  const labels = card && !words.quiet ? box.texts.filter(({ y }) => Math.abs(y) > height / 2) : [];
  const above = Math.max(0, ...labels.map(({ y }) => LABEL + Math.abs(y) - height / 2));
  const wide = labels.map(({ text, style, x }) => Math.abs(x) + (measure(text, style) - width) / 2);
  return {
    ...box,
    outerWidth: width + 2 * Math.max(side, outline, beside, ...wide),
    outerHeight: height + 2 * Math.max(below, outline, under, above),
    outline,
    stubs,
  };
}

/** Height of a label above or below a card, px. */
const LABEL = 12;

/** How far a part reaches beyond the sides of its box, and beyond its top or bottom. */
function beyond(part: Place, { width, height }: BoxSize): [number, number] {
  return [
    Math.max(0, Math.abs(part.x) + (part.width - width) / 2),
    Math.max(0, Math.abs(part.y) + (part.height - height) / 2),
  ];
}

function stubWidthOf({ stubs }: NodeWords, measure: Measure): number {
  return Math.max(0, ...stubs.map((s) => measure(s.argument + s.rest, "stub"))) + 3;
}

/** Size a plain box by its words. */
function boxOf(
  words: NodeWords,
  leaf: boolean,
  horizontal: boolean,
  measure: Measure,
  least: BoxSize,
): Pick<NodeShape, "width" | "height" | "flagHeight" | "texts"> {
  const { quiet = false } = words;
  const titleStyle = quiet ? "name" : "title";
  const pad = quiet ? QUIET_PAD : leaf ? PILL_PAD : PAD;
  const under: [string | null, Style][] = [
    [words.name, "name"],
    [words.shape, "shape"],
    [words.uses, "name"],
  ];
  const second = under.filter((part): part is [string, Style] => part[0] !== null);
  const secondWidth = rowWidth(second, measure);
  const flagHeight = words.flag === null ? 0 : FLAG;
  const stubWidth = stubWidthOf(words, measure);
  const stubRows = words.stubs.length;

  let width = Math.max(
    quiet ? QUIET_WIDTH : LEAST_WIDTH,
    measure(words.title, titleStyle) + 2 * pad,
    secondWidth + 2 * pad,
  );
  if (words.flag !== null) width = Math.max(width, measure(words.flag, "flag") + 2 * PAD + 12);
  let height = flagHeight + (second.length > 0 ? 41 : 28) - (quiet ? QUIET_LESS : 0);
  if (stubRows > 0 && !horizontal) height = Math.max(height, stubRows * STUB_ROW + 10);
  if (stubRows > 0 && horizontal) width = Math.max(width, stubWidth + 34);
  const numberInputs = inputSize(words);
  width = Math.ceil(Math.max(width, least.width, numberInputs.width) / 2) * 2;
  height = Math.max(height + numberInputs.height, least.height);

  const lines = (second.length > 0 ? 2 : 1) * LINE;
  const top = -height / 2 + flagHeight + (height - numberInputs.height - flagHeight - lines) / 2;
  const texts: Text[] = [
    { text: words.title, style: titleStyle, x: 0, y: top + 11.5, anchor: "middle" },
  ];
  texts.push(...rowTexts(second, top + LINE + 11, measure));
  const { flag } = words;
  if (flag !== null)
    texts.push({ text: flag, style: "flag", x: 0, y: -height / 2 + 12.5, anchor: "middle" });
  return { width, height, flagHeight, texts };
}

/** Radius of the dot at the end of a stub. */
export const STUB_RADIUS = STUB_MARK;
