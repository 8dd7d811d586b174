import type { TileGrad } from "../paint/marks";
import type { Scene, SceneNode } from "../scene/scene";
import type { Measure } from "../text/measure";
import { normText } from "../text/number";
import { type LogScale, logScale, placeOn } from "./scale";

/** The largest ratio of norms for a linear scale; beyond it the smallest bar would have no height. */
const FAR_APART = 50;
/** The height of the smallest norm on a logarithmic scale. */
const LOG_LEAST = 0.06;
/** Space between a number and the edges of its bar, px. */
const APART = 1;
/** Between two numbers above bars, px. */
const BETWEEN = 4;
/** The least thickness of a horizontal bar with a number, px. */
const THICK = 16;

/** A bar with a known gradient and its norm. NaN counts as Infinity. */
interface KnownBar {
  node: SceneNode;
  norm: number;
}

/** The fills of one strip's bars: their norms on the scale of the whole picture. */
export function fillsOf(
  bars: readonly KnownBar[],
  scale: LogScale | null,
  measure: Measure,
): (Pick<TileGrad, "text"> & { share: number })[] {
  const texts = textsFor(bars, measure);
  return bars.map(({ norm }, i) => ({ text: texts[i], share: heightOn(scale, norm) }));
}

/** The height of a bar on a logarithmic scale, 0 to 1. NaN counts as Infinity. */
function heightOn(scale: LogScale | null, norm: number): number {
  if (norm === 0 || !scale) return norm > 0 ? 1 : 0;
  if (norm === Number.POSITIVE_INFINITY) return 1;
  return LOG_LEAST + (1 - LOG_LEAST) * placeOn(scale, norm);
}

/** The heights of neighbouring bars, 0 to 1, and whether their scale is logarithmic. */
export function heightsOf(norms: readonly number[]) {
  const scale = logScale(norms);
  const isLog = scale !== null && scale.most > FAR_APART * scale.least;
  const shareOf = (norm: number) =>
    isLog || !scale || !Number.isFinite(norm) ? heightOn(scale, norm) : norm / scale.most;
  return { isLog, shareOf };
}

/** The numbers of a strip: above its bars those that fit, inside them with as many digits as fit on all, or none. */
function textsFor(bars: readonly KnownBar[], measure: Measure): string[] {
  const { bar } = bars[0].node;
  const room = bar?.room ?? 0;
  const textsOf = (digits: number) =>
    bars.map(({ norm }) => (norm === Number.POSITIVE_INFINITY ? "NaN" : normText(norm, digits)));
  if (bar?.above) return textsAbove(bars, textsOf(3), measure);
  const fits = (text: string) =>
    bar?.grows === "up" ? measure(text, "name") + APART <= room : room >= THICK;
  return [3, 2].map(textsOf).find((texts) => texts.every(fits)) ?? bars.map(() => "");
}

/** The numbers above narrow bars: of the first and the last, the largest and the smallest, then of every second, third, ... */
function textsAbove(
  bars: readonly KnownBar[],
  texts: readonly string[],
  measure: Measure,
): string[] {
  const widths = texts.map((text) => measure(text, "name") + BETWEEN);
  const pitch = bars.length > 1 ? Math.abs(bars[1].node.x - bars[0].node.x) : 1;
  const every = Math.ceil(Math.max(...widths) / pitch);
  const norms = bars.map(({ norm }) => norm);
  const ends = [
    0,
    bars.length - 1,
    norms.indexOf(Math.max(...norms)),
    norms.indexOf(Math.min(...norms)),
  ];
  const taken: [number, number][] = [];
  const isShown = new Set<number>();
  for (const i of [...ends, ...[...bars.keys()].filter((place) => place % every === 0)]) {
    const { x, shape, bar } = bars[i].node;
    const half = shape.width / 2;
    const left = { start: x - half, middle: x - widths[i] / 2, end: x + half - widths[i] }[
      bar?.above ?? "middle"
    ];
    const right = left + widths[i];
    if (taken.some(([from, to]) => left < to && right > from)) continue;
    taken.push([left, right]);
    isShown.add(i);
  }
  return texts.map((text, i) => (isShown.has(i) ? text : ""));
}

/** The fills of all bars of a scene by an amount per drawn node, each strip on a linear scale from 0. */
export function barsOfAmounts(
  { nodes }: Scene,
  amounts: readonly number[],
  tints: readonly string[],
  write: (amount: number) => string,
): ReadonlyMap<number, TileGrad> {
  const most = new Map<number, number>();
  const bars = nodes.flatMap(({ bar, index }) => (bar ? { strip: bar.strip, index } : []));
  for (const { strip, index } of bars)
    most.set(strip, Math.max(most.get(strip) ?? 0, amounts[index]));
  return new Map(
    bars.map(({ strip, index }) => {
      const share = amounts[index] / (most.get(strip) || 1);
      const words = `${write(amounts[index])} (height: linear)`;
      return [index, { text: "", tint: tints[index], share, from: 0, words }];
    }),
  );
}
