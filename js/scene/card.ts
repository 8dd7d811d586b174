import { type Direction, flow } from "../layout/direction";
import type { Measure, Style } from "../text/measure";
import { formatShape, shortenMiddle } from "../text/shorten";
import type { GraphModel } from "../wire";
import type { Place } from "./grid";
import type { CardParts, CardSize, NodeShape, Text } from "./node_shape";
import type { NodeWords } from "./node_words";
import { isAutograd, isInSign } from "./shown_graph";
import { rowTexts, rowWidth } from "./tile";

/** The most nodes drawn as cards. */
export const MOST_CARDS = 60;
/** The most nodes drawn as large cards. */
const MOST_FULL = 9;

/** The card size for this many nodes; null for plain boxes. */
export function cardSize(count: number, isStatic: boolean): CardSize | null {
  if (isStatic || count > MOST_CARDS) return null;
  return count <= MOST_FULL ? "full" : "near";
}

/** Whether constants or cuts are drawn that could be hidden; a board's numbers in signs do not count. */
export function drawsConstants({ nodes, static: isStatic }: GraphModel): boolean {
  const apart = nodes.filter((node) => !isInSign(node));
  const isBoard = !isStatic && apart.length <= MOST_CARDS;
  return (isBoard ? apart : nodes).some((node) => !isAutograd(node));
}

/** Sizes of both kinds, px. Baselines are from the middle of a chip. */
export const CHIPS = {
  full: {
    ...{
      height: 68,
      half: 58,
      ofLeaf: 64,
      pad: 12,
      lap: 6,
      ring: 38,
      row: 26,
      ledger: 148,
      constant: 48,
      named: 26,
    },
    ...{ name: -13, low: 19, middle: 8 },
  },
  near: {
    ...{
      height: 42,
      half: 48,
      ofLeaf: 58,
      pad: 6,
      lap: 2,
      ring: 25,
      row: 19,
      ledger: 132,
      constant: 28,
      named: 18,
    },
    ...{ name: -6, low: 14, middle: 4.5 },
  },
} as const;

/** The height of a line of summands, px, and the most summands. */
const SUM = 18;
const MOST_ADDED = 3;
/** The least width of a small chip with such a line, px. */
const LEAST_ADDED = 90;
/** The least width of the value in a small leaf, px. */
const LEAST_VALUE = 34;
/** Height of a row of a matrix, px. */
const LINE = 16;
/** A longer word of an operation is on two lines, or is shortened, px. */
const LONG_SIGN = 58;
const LONGEST_SIGN = 116;
/** From a chip to the baseline of the labels above it, px. */
const ABOVE = 7;
/** From a chip to the baseline of its caption, px. */
const BELOW = 15;
/** The size of a number input, px, and the margin of their grid. */
export const INPUT = { width: 52, height: 24, rim: 3 };

type Box = Pick<NodeShape, "width" | "height" | "flagHeight" | "texts" | "withSum"> & {
  card?: CardParts;
};

/** The properties of a chip that its words do not have. */
export interface ChipOptions {
  size: CardSize;
  leaf: boolean;
  direction: Direction;
  /** The least width. */
  least: number;
}

/** A chip: the tensor's name above its value, and its gradient beside them; the operation's sign on the edge of its inputs. */
export function cardOf(words: NodeWords, options: ChipOptions, measure: Measure): Box {
  if (words.quiet) return constantChip(words, options, measure);
  const box = chipOf(words, options, measure);
  const isCopied = options.leaf && words.uses !== null;
  return isCopied ? { ...box, withSum: chipOf(words, options, measure, true) } : box;
}

/** `isSplit`: half of the gradient's cell is for the share of one use of a leaf. */
function chipOf(
  words: NodeWords,
  { size, leaf, direction, least }: ChipOptions,
  measure: Measure,
  isSplit = false,
): Box {
  const chip = CHIPS[size];
  const sign = leaf || words.isCaptioned ? null : signOf(words, size, measure);
  const named: [string, Style][] = [
    [leaf ? words.title : (words.flag ?? words.name ?? ""), size === "full" ? "card" : "label"],
    // Operations on a leaf before its use, for example a gather.
    [leaf ? (words.name ?? "") : "", "cell"],
  ];
  const names = named.filter(([name]) => name !== "");
  const [lines, style] = shownLines(words, size === "full" ? "number" : "digits");
  const inputs = inputSize(words);
  const hasSum = addedUp(words);
  const rows = leaf ? (words.shares ?? 0) : 0;
  const isLedger = rows > 1;
  const covered = sign && direction === "left" ? sign.width / 2 - chip.lap : 0;
  const wanted = [
    rowWidth(names, measure) + 2 * chip.pad,
    valueWidth(words, lines, style, measure) + 2 * chip.pad,
    inputs.width,
  ];
  const half = Math.max(leaf ? chip.ofLeaf : chip.half, words.gradRoom ?? 0);
  const left = covered + Math.max(size === "full" ? half : leaf ? LEAST_VALUE : 0, ...wanted);
  const extent = Math.max(least, isLedger ? chip.ledger : hasSum ? LEAST_ADDED : 0);
  const width = even(Math.max(left + half, extent));
  // Ledgers share the room, as their rows do.
  const grad = isLedger ? Math.max(half, Math.min(width - left, width / 2)) : width - left;
  const head = names.length > 0 ? chip.named : 0;
  const held = Math.max((lines.length - 1) * LINE + chip.height - head, inputs.height);
  const main = head + Math.max(chip.height - head, held);
  const height = main + (hasSum ? SUM : 0) + (isLedger ? rows * chip.row : 0);
  const middle = (main - height) / 2;
  const top = -height / 2;
  const value = { x: (covered - grad) / 2, width: width - grad - covered };
  const last = names.length > 0 ? middle + main / 2 - chip.height / 2 + chip.low : null;
  const lowest = last ?? middle + ((lines.length - 1) * LINE) / 2 + baselineIn(size, style);
  const cell = { x: (width - grad) / 2, width: grad };
  const parted = isSplit ? main / 2 : 0;
  const texts = [
    ...rowTexts(names, middle - main / 2 + chip.height / 2 + chip.name, measure).map((one) => ({
      ...one,
      ...{ x: one.x + value.x, head: true },
    })),
    ...lines.map((line, i) => ({
      ...text(line, style, value.x, lowest - (lines.length - 1 - i) * LINE, "middle"),
      ...holds(words, value.width - 8),
    })),
    ...(words.isCaptioned && !leaf
      ? [text(words.sign || words.title, "cell", 0, height / 2 + BELOW, "middle")]
      : []),
    ...(words.isLabelled
      ? [
          text("value", "cell", value.x, top - ABOVE, "middle"),
          text("grad", "cell", cell.x, top - ABOVE, "middle"),
        ]
      : []),
  ];
  const rules: [number, number, number, number][] = [
    [width / 2 - grad, top, width / 2 - grad, top + main],
    ...(height > main
      ? [[-width / 2, top + main, width / 2, top + main] as [number, number, number, number]]
      : []),
  ];
  return {
    ...{ width, height, flagHeight: 0 },
    texts: sign ? [...texts, ...signTexts(sign, direction, width, height, middle)] : texts,
    card: {
      size,
      isNamed: names.length > 0,
      rules,
      sign: sign && signPlace(sign, direction, width, height, middle),
      value: { ...value, y: middle + head / 2, height: main - head },
      grad: { ...cell, y: middle + parted / 2, height: main - parted },
      sum: hasSum ? { x: 0, y: height / 2 - SUM / 2, width, height: SUM } : null,
      rows: isSplit
        ? [{ ...cell, y: middle - parted / 2, height: parted }]
        : Array.from({ length: isLedger ? rows : 0 }, (_, i) => ({
            ...{ x: 0, y: top + main + (i + 0.5) * chip.row, width, height: chip.row },
          })),
      ...(inputs.height > 0 && {
        numberInputs: {
          ...{ x: value.x, width: value.width, height: inputs.height },
          y: top + head + inputs.height / 2,
        },
      }),
    },
  };
}

/** An operation's sign in its ring: a few letters in a circle, a word in a wider one. */
interface Sign {
  lines: readonly string[];
  style: Style;
  width: number;
  height: number;
}

function signOf({ sign, title }: NodeWords, size: CardSize, measure: Measure): Sign {
  const { ring } = CHIPS[size];
  const said = sign || title;
  const large = size === "full" && measure(said, "sign") <= ring - 14;
  const style: Style = large ? "sign" : "title";
  const words = said.split(" ");
  const isLong =
    measure(said, style) > LONG_SIGN && words.length === 2 && /^[a-z]+$/i.test(said[0]);
  const shortened = (one: string) =>
    shortenMiddle(one, LONGEST_SIGN, (part) => measure(part, style));
  const lines = (isLong ? words : [said]).map(shortened);
  const height = Math.max(lines.length * LINE + 4, size === "full" && large ? ring : 26);
  const width = even(widest(lines, style, measure) + 14);
  const isRound = lines.length === 1 && width <= ring + 2;
  return isRound ? { lines, style, width: ring, height: ring } : { lines, style, width, height };
}

/** On the edge of a chip; beside it where it would cover the chip's numbers. */
function signPlace(
  sign: Sign,
  direction: Direction,
  width: number,
  height: number,
  middle: number,
): Place {
  const { width: w, height: h } = sign;
  const size = { width: w, height: h };
  if (direction === "left") return { x: -width / 2, y: middle, ...size };
  const [dx, dy] = flow(direction);
  return { x: (dx * (width + w)) / 2, y: dy === 0 ? middle : (dy * (height + h)) / 2, ...size };
}

function signTexts(sign: Sign, ...at: [Direction, number, number, number]): Text[] {
  const { x, y } = signPlace(sign, ...at);
  const { lines, style } = sign;
  const low = style === "sign" ? 7.8 : 4.7;
  return lines.map((line, i) =>
    text(line, style, x, y + low + (i - (lines.length - 1) / 2) * (LINE - 2), "middle"),
  );
}

/** The baseline of a number in the middle of its cell. */
function baselineIn(size: CardSize, style: Style): number {
  return style === "number" ? CHIPS[size].middle : CHIPS.near.middle;
}

/** The least room for number inputs; zero for none. */
export function inputSize({ numberInputs }: Pick<NodeWords, "numberInputs">): {
  width: number;
  height: number;
} {
  if (!numberInputs) return { width: 0, height: 0 };
  const { width, height, rim } = INPUT;
  return {
    width: numberInputs.columns * width + 2 * rim,
    height: numberInputs.rows * height + 2 * rim,
  };
}

/** A card of at least this height, with free room below. */
export function tallCard<B extends Box>(box: B, height: number): B {
  const up = (height - box.height) / 2;
  if (!(up > 0)) return box;
  const { card } = box;
  // A constant's words stay in the middle.
  if (!card) return { ...box, height };
  const raise = <C extends { y: number }>(part: C): C => ({ ...part, y: part.y - up });
  return {
    ...box,
    height,
    texts: box.texts.map(raise),
    card: {
      ...card,
      rules: card.rules.map(([x0, y0, x1, y1]) => [x0, y0 - up, x1, y1 - up]),
      sign: card.sign && raise(card.sign),
      value: raise(card.value),
      grad: card.grad && raise(card.grad),
      sum: card.sum && raise(card.sum),
      rows: card.rows.map(raise),
      ...(card.numberInputs && { numberInputs: raise(card.numberInputs) }),
    },
  };
}

/** Whether a node's summands fit. */
function addedUp({ shares = 0, isNumber = false }: NodeWords): boolean {
  return isNumber && shares > 1 && shares <= MOST_ADDED;
}

/** A constant: its name and, beside it, its value. */
function constantChip(
  words: NodeWords,
  { size, least }: Pick<ChipOptions, "size" | "least">,
  measure: Measure,
): Box {
  const { constant, pad } = CHIPS[size];
  const [lines, style] = shownLines(words, size === "full" ? "number" : "digits");
  const isValue =
    words.title.replaceAll("-", "\u2212") === words.value ||
    (words.rows && words.title.startsWith("["));
  const named: Style = size === "full" ? "card" : "title";
  const name = isValue ? 0 : measure(words.title, named) + (size === "full" ? 14 : 8);
  const room = isValue ? widest(lines, style, measure) : valueWidth(words, lines, style, measure);
  const width = even(Math.max(constant, least, name + room + 2 * pad));
  const height = constant + (lines.length - 1) * LINE;
  const left = -(name + room) / 2;
  const low = baselineIn(size, style) - ((lines.length - 1) * LINE) / 2;
  const numbers = lines.map((line, i) => ({
    ...text(line, style, left + name + room / 2, low + i * LINE, "middle"),
    ...(!isValue && holds(words, width - name - pad)),
  }));
  const texts = isValue
    ? numbers
    : [text(words.title, named, left, size === "full" ? 6 : 4.5), ...numbers];
  return { width, height, flagHeight: 0, texts };
}

/** The same, or a matrix row by row. */
function shownLines(words: NodeWords, style: Style): [readonly string[], Style] {
  if (words.rows) return [words.rows, "digits"];
  const [value, shown] = shownValue(words, style);
  return [[value], shown];
}

function widest(lines: readonly string[], style: Style, measure: Measure): number {
  return Math.max(...lines.map((line) => measure(line, style)));
}

/** The width of a value; where it follows the reader, of numbers as long as they get. */
function valueWidth(
  { moves = false, value }: NodeWords,
  lines: readonly string[],
  style: Style,
  measure: Measure,
): number {
  const isKnown = moves && value !== null && value !== undefined;
  const long = (number: string) => (number.length < LONG.length ? LONG : number);
  return widest(
    isKnown ? lines.map((line) => line.replace(/[\u2212\d.e]+/g, long)) : lines,
    style,
    measure,
  );
}

/** A number with as many letters as most have. */
const LONG = "\u22120.8888";

/** The room for another number in place of the known one. */
function holds({ value, rows }: NodeWords, room: number): Pick<Text, "room"> {
  return (value === null || value === undefined) && !rows ? {} : { room };
}

/** Shown instead of a number that torch has not kept, and of one that backward made. */
const UNKNOWN = "unknown";
const IN_BACKWARD = "in backward";
export const NO_NUMBER: readonly string[] = [UNKNOWN, IN_BACKWARD];
const SCALAR = formatShape([]);

/** The text of a value: the number, else the shape. */
function shownValue(words: NodeWords, style: Style): [string, Style] {
  const { value, shape, onlyShapes, inBackward } = words;
  if (value !== null && value !== undefined) return [value, style];
  if (shape !== SCALAR || onlyShapes) return [shape ?? "?", "shape"];
  return [inBackward ? IN_BACKWARD : UNKNOWN, "shape"];
}

function text(
  words: string,
  style: Style,
  x: number,
  y: number,
  anchor: Text["anchor"] = "start",
): Text {
  return { text: words, style, x, y, anchor };
}

function even(width: number): number {
  return Math.ceil(width / 2) * 2;
}
