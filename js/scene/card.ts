import type { Measure, Style } from "../text/measure";
import { formatShape } from "../text/shorten";
import type { GraphModel } from "../wire";
import type { CardParts, CardSize, NodeShape, Text } from "./node_shape";
import type { NodeWords } from "./node_words";
import { isAutograd, isInSign } from "./shown_graph";

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

/** Sizes of both kinds, px. */
const SIZES = {
  full: { width: 148, header: 46, row: 62, pad: 12, quiet: [84, 84] },
  near: { width: 70, header: 26, row: 22, pad: 7, quiet: [48, 46] },
} as const;

/** The height of a line of summands, px, and the most summands. */
const SUM = 18;
const MOST_ADDED = 3;
/** The least width of a small card with such a line, px. */
const LEAST_ADDED = 92;
/** The least width of a leaf's copies, with "Σ −0.4312" in one. */
const LEAST_COPY = 76;
/** The least width of a large leaf, with ".grad 4 + 12" in its half, px. */
const LEAST_LEAF = 166;
/** The longest word that is drawn as large as a sign. */
const LONGEST_SIGN = 5;
/** Room for the word "value" in a large card, px. */
const ABOVE_INPUTS = 22;
/** Height of a row of a matrix, px. */
const LINE = 16;
/** Width of a leaf with rows, px. */
const LEDGER = 148;
/** The size of a number input, px, and the margin of their grid. */
export const INPUT = { width: 52, height: 24, rim: 3 };

type Box = Pick<NodeShape, "width" | "height" | "flagHeight" | "texts" | "withSum"> & {
  card?: CardParts;
};

/** A node on a board: its sign or name, below it its value and its incoming gradient. */
export function cardOf(
  words: NodeWords,
  size: CardSize,
  leaf: boolean,
  measure: Measure,
  leastWidth: number,
): Box {
  if (words.quiet) return quietCard(words, size, measure, leastWidth);
  if (leaf && (words.shares ?? 0) > 1) return ledgerCard(words, size, measure, leastWidth);
  const card = size === "full" ? fullCard : nearCard;
  const isCopied = leaf && words.uses !== null;
  const least = Math.max(leastWidth, isCopied ? LEAST_COPY : 0);
  const box = card(words, leaf, measure, least);
  return isCopied ? { ...box, withSum: ledgerCard(words, size, measure, least, box) } : box;
}

function fullCard(words: NodeWords, leaf: boolean, measure: Measure, leastWidth: number): Box {
  const { width: least, header, row, pad } = SIZES.full;
  const sign = leaf ? "" : (words.sign ?? "");
  const name = leaf ? words.title : (words.flag ?? words.name ?? "");
  const isCut = sign !== "" && words.title.includes("\u2026");
  // A class that is too long is left out beside its sign.
  const under = leaf ? (words.name ?? (name === "leaf" ? "" : "leaf")) : isCut ? "" : words.title;
  // A word needs more time to read than a sign.
  const signed: Style = sign.length > LONGEST_SIGN && /[a-z]{2}/i.test(sign) ? "card" : "sign";
  const signWidth = sign === "" ? 0 : measure(sign, signed) + 8;
  const nameWidth = measure(name, "card");
  // Torch's names have no signs, only classes.
  const underStyle: Style = sign === "" && name === "" ? "title" : "cell";
  const underWidth = measure(under, underStyle);
  const beside = leaf ? nameWidth + 14 + underWidth : Math.max(nameWidth, underWidth);
  const [lines, style] = shownLines(words, "number");
  const numberInputs = inputSize(words);
  const width = even(
    Math.max(
      leaf ? LEAST_LEAF : least,
      leastWidth,
      signWidth + beside + 2 * pad,
      2 * (widest(lines, style, measure) + 2 * pad),
      2 * numberInputs.width,
    ),
  );
  const added = addedUp(words);
  const held = Math.max(
    32 + lines.length * LINE,
    numberInputs.height && ABOVE_INPUTS + numberInputs.height,
  );
  const height = header + Math.max(row + (added ? SUM - 6 : 0), held);
  const top = -height / 2;
  const left = -width / 2 + pad;
  const texts: Text[] = [];
  if (sign !== "")
    texts.push(head(sign, signed, left, top + header / 2 + (signed === "sign" ? 8.5 : 5.5)));
  const at = left + signWidth;
  if (leaf) {
    texts.push(head(name, "card", left, top + header / 2 + 5.5));
    texts.push(head(under, "cell", width / 2 - pad, top + header / 2 + 4, "end"));
  } else if (name === "" || under === "") {
    const [one, style, low] =
      name === "" ? ([under, underStyle, 4] as const) : ([name, "card", 5.5] as const);
    if (one !== "") texts.push(head(one, style, at, top + header / 2 + low));
  } else {
    texts.push(head(name, "card", at, top + header / 2 - 1));
    texts.push(head(under, "cell", at, top + header / 2 + 14));
  }
  const grad = {
    ...{ x: width / 4, width: width / 2 },
    ...{ y: (top + header + height / 2) / 2, height: height - header },
  };
  const label = top + header + 17;
  texts.push(text("value", "cell", -width / 4, label, "middle"));
  texts.push(text(leaf ? ".grad" : "grad", "cell", width / 4, label, "middle"));
  const first = lines.length > 1 ? 38 : 46;
  lines.forEach((line, i) => {
    const at = top + header + first + i * LINE;
    texts.push({ ...text(line, style, -width / 4, at, "middle"), ...holds(words, width / 2 - 8) });
  });
  return {
    width,
    height,
    flagHeight: words.flag === null ? 0 : header,
    texts,
    card: {
      size: "full",
      header,
      rules: [
        [-width / 2, top + header, width / 2, top + header],
        [0, top + header, 0, height / 2],
      ],
      grad,
      sum: added ? { x: grad.x, y: height / 2 - 12, width: grad.width, height: SUM } : null,
      rows: [],
      ...inputCell(numberInputs, -width / 4, top + header + ABOVE_INPUTS, width / 2),
    },
  };
}

function nearCard(words: NodeWords, leaf: boolean, measure: Measure, leastWidth: number): Box {
  const { width: leastPlain, header, row, pad } = SIZES.near;
  const added = addedUp(words) ? SUM : 0;
  const least = added > 0 ? LEAST_ADDED : leastPlain;
  const sign = leaf ? "" : (words.sign ?? words.title);
  const name = leaf ? words.title : (words.flag ?? words.name ?? "");
  const gap = sign === "" || name === "" ? 0 : 10;
  const [lines, style] = shownLines(words, "digits");
  // Operations on a leaf before its use, for example a gather.
  const role = leaf ? (words.name ?? "") : "";
  const roleWidth = role === "" ? 0 : measure(role, "cell") + 10;
  const numberInputs = inputSize(words);
  const width = even(
    Math.max(
      least,
      leastWidth,
      measure(sign, "title") + measure(name, "title") + gap + 2 * pad,
      roleWidth + widest(lines, style, measure) + 2 * pad,
      numberInputs.width,
    ),
  );
  const held = Math.max(row + (lines.length - 1) * LINE, numberInputs.height);
  const height = header + held + row + added;
  const top = -height / 2;
  const right = width / 2 - pad;
  const texts: Text[] = [];
  if (sign !== "") texts.push(head(sign, "title", -width / 2 + pad, top + 17.5));
  if (name !== "")
    texts.push(
      leaf
        ? head(name, "title", -width / 2 + pad, top + 17.5)
        : head(name, "label", right, top + 17.5, "end"),
    );
  if (role !== "") texts.push(text(role, "cell", -width / 2 + pad, top + header + 15.5));
  lines.forEach((line, i) => {
    const at = top + header + 15.5 + i * LINE;
    const room = width - 2 * pad - roleWidth;
    texts.push({ ...text(line, style, right, at, "end"), ...holds(words, room) });
  });
  return {
    width,
    height,
    flagHeight: words.flag === null ? 0 : header,
    texts,
    card: {
      size: "near",
      header,
      rules: [[-width / 2, top + header, width / 2, top + header]],
      grad: { x: 0, y: top + header + held + (row + added) / 2, width, height: row + added },
      sum: added ? { x: 0, y: height / 2 - SUM / 2, width, height: SUM } : null,
      rows: [],
      ...inputCell(numberInputs, 0, top + header, width),
    },
  };
}

/**
 * A leaf with several uses: a row for each contribution to its gradient, and their sum. As large as `one` of them, if it is
 * drawn once per use: then it has one row, and no value if that is long.
 */
function ledgerCard(
  words: NodeWords,
  size: CardSize,
  measure: Measure,
  leastWidth: number,
  one: Box | null = null,
): Box {
  const { header, pad } = SIZES[size];
  const row = one ? (one.height - header) / 2 : size === "full" ? 28 : 20;
  const last = one ? row : size === "full" ? 36 : 26;
  const count = one ? 1 : (words.shares ?? 0);
  const [value, style] = shownValue(words, size === "full" ? "number" : "digits");
  const named: Style = size === "full" ? "card" : "title";
  const numberInputs = inputSize(one ? {} : words);
  const least = measure(words.title, named) + measure(value, style) + 3 * pad;
  const width = one?.width ?? even(Math.max(LEDGER, leastWidth, least + 12, numberInputs.width));
  /** Where the rows start. */
  const shares = header + numberInputs.height;
  const height = shares + count * row + last;
  const top = -height / 2;
  const below = size === "full" ? 7 : 5;
  const rows = Array.from({ length: count }, (_, i) => ({
    ...{ x: 0, y: top + shares + (i + 0.5) * row, width, height: row },
  }));
  return {
    width,
    height,
    flagHeight: words.flag === null ? 0 : header,
    texts: [
      head(words.title, named, -width / 2 + pad, top + header / 2 + below),
      ...(least > width
        ? []
        : [
            {
              ...head(value, style, width / 2 - pad, top + header / 2 + below, "end"),
              ...holds(words, width - measure(words.title, named) - 3 * pad),
            },
          ]),
      text(".grad", "cell", -width / 2 + pad, height / 2 - last / 2 + 4),
    ],
    card: {
      size,
      header,
      rules: [[-width / 2, top + header, width / 2, top + header]],
      grad: { x: 0, y: height / 2 - last / 2, width, height: last },
      sum: null,
      rows,
      ...inputCell(numberInputs, 0, top + header, width),
    },
  };
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

/** Their cell in a card; `x` is its middle. */
function inputCell(
  { height }: { height: number },
  x: number,
  top: number,
  width: number,
): Pick<CardParts, "numberInputs"> {
  return height > 0 ? { numberInputs: { x, y: top + height / 2, width, height } } : {};
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

/** A constant: its name and value. */
function quietCard(words: NodeWords, size: CardSize, measure: Measure, leastWidth: number): Box {
  const { quiet, pad } = SIZES[size];
  const isFull = size === "full";
  const [lines, style] = shownLines(words, isFull ? "number" : "digits");
  const more = (lines.length - 1) * LINE;
  const isValue =
    words.title.replaceAll("-", "\u2212") === words.value ||
    (words.rows && words.title.startsWith("["));
  const isNamed = !isValue;
  const named: Style = isFull ? "card" : "title";
  const width = even(
    Math.max(
      quiet[0],
      leastWidth,
      (isNamed ? measure(words.title, named) : 0) + 2 * pad,
      widest(lines, style, measure) + 2 * pad,
    ),
  );
  const height = (isNamed ? quiet[1] : quiet[1] * 0.6) + more;
  const last = isNamed ? height / 2 - (isFull ? 18 : 10) : (isFull ? 8 : 4.5) + more / 2;
  const numbers = lines.map((line, i) => ({
    ...text(line, style, 0, last - (lines.length - 1 - i) * LINE, "middle"),
    ...(isNamed && holds(words, width - pad)),
  }));
  const texts = isNamed
    ? [text(words.title, named, 0, -height / 2 + (isFull ? 28 : 18), "middle"), ...numbers]
    : numbers;
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

/** A text in the header. */
function head(...given: Parameters<typeof text>): Text {
  return { ...text(...given), head: true };
}

function even(width: number): number {
  return Math.ceil(width / 2) * 2;
}
