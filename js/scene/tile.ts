import type { Measure, Style } from "../text/measure";
import { shortCount } from "../text/number";
import type { NodeShape, Text } from "./node_shape";
import type { NodeWords } from "./node_words";

const PAD = 7;
/** The padding beside the sign of a box that can be opened. */
const PAD_OF_STACK = 12;
const FLAG = 17;
const LEAST_WIDTH = 64;
/** From a tile's top to its name's baseline, from there to the next lines, and below the last, px. */
const LINES = { name: 17, sizes: 14, number: 17, below: 9 };
/** Height of the strip at the foot, px. */
const UNDER = 20;
const GAP = 7;

/** The width of texts side by side, px. */
export function rowWidth(row: readonly [string, Style][], measure: Measure): number {
  const gaps = GAP * Math.max(0, row.length - 1);
  return row.reduce((sum, [text, style]) => sum + measure(text, style), gaps);
}

/** Texts side by side around x = 0. */
export function rowTexts(row: readonly [string, Style][], y: number, measure: Measure): Text[] {
  let at = -rowWidth(row, measure) / 2;
  return row.map(([text, style]) => {
    const x = at;
    at += measure(text, style) + GAP;
    return { text, style, x, y, anchor: "start" };
  });
}

type Box = Pick<NodeShape, "width" | "height" | "flagHeight" | "texts" | "tile">;

/** A closed box: its name, its best-known sizes, room for a number, and its absorbed followers at the foot. */
export function tileOf(words: NodeWords, measure: Measure, leastWidth = 0): Box {
  const { title, shape, uses, flag, tile } = words;
  const { numbers = 0, under = null, isLayer = false } = tile ?? {};
  const second: [string, Style][] = [];
  if (shape !== null) second.push([shape, "cell"]);
  if (uses !== null) second.push([uses, "name"]);
  const secondWidth = rowWidth(second, measure);
  const widths = [
    LEAST_WIDTH,
    leastWidth,
    measure(title, "title") + 2 * (isLayer ? PAD : PAD_OF_STACK),
    secondWidth + 2 * PAD,
    under === null ? 0 : measure(under, "cell") + 2 * PAD,
    flag === null ? 0 : measure(flag, "flag") + 2 * PAD + 12,
  ];
  const width = Math.ceil(Math.max(...widths) / 2) * 2;
  const short = shortCount(numbers);
  const long = `${short} params`;
  // Side by side, layers use the same short form.
  const rest = isLayer || measure(long, "cell") > width - 2 * PAD ? short : long;
  const flagHeight = flag === null ? 0 : FLAG;
  const foot = under === null ? 0 : UNDER;
  const lines = LINES.name + LINES.sizes + (numbers > 0 ? LINES.number : 0);
  const height = flagHeight + lines + LINES.below + foot;
  const top = -height / 2 + flagHeight;
  const texts: Text[] = [
    { text: title, style: "title", x: 0, y: top + LINES.name, anchor: "middle" },
  ];
  texts.push(...rowTexts(second, top + LINES.name + LINES.sizes, measure));
  if (under !== null) {
    const y = height / 2 - UNDER / 2 + 4;
    texts.push({ text: under, style: "cell", x: 0, y, anchor: "middle", foot: true });
  }
  if (flag !== null)
    texts.push({ text: flag, style: "flag", x: 0, y: -height / 2 + 12.5, anchor: "middle" });
  const number = numbers > 0 ? top + lines : null;
  return { width, height, flagHeight, texts, tile: { number, rest, under: foot, isLayer } };
}

/** Half the width of a sign in a circle, px. */
const ROUND = 13;
const BESIDE_ROUND = 15;

/** An operation between tiles: its sign in a circle, with its absorbed follower below, "relu". */
export function roundOf(sign: string, under: string | null, measure: Measure) {
  const texts: Text[] = [{ text: sign, style: "card", x: 0, y: 5.5, anchor: "middle" }];
  if (under !== null)
    texts.push({
      ...{ text: under, style: "cell", x: 0, y: ROUND + BESIDE_ROUND },
      anchor: "middle",
      foot: true,
    });
  const below = under === null ? 0 : BESIDE_ROUND + 4;
  return {
    width: 2 * ROUND,
    height: 2 * ROUND,
    outerWidth: Math.max(2 * ROUND, under === null ? 0 : measure(under, "cell")),
    outerHeight: 2 * (ROUND + below),
    outline: 0,
    flagHeight: 0,
    texts,
    stubs: [],
    sign: "round",
  } satisfies NodeShape;
}
