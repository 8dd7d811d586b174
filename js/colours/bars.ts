import type { TileGrad } from "../paint/marks";
import type { SceneNode } from "../scene/scene";
import type { Measure } from "../text/measure";
import { normText } from "../text/number";
import { logScale, placeOn } from "./scale";

/** Norms further apart than this would leave the least of them no height on a linear scale. */
const FAR_APART = 50;
/** On a logarithmic scale the least norm still has this much. */
const LOG_LEAST = 0.06;
/** Between a number and the rims of its bar, px. */
const APART = 1;
/** A bar that lies on its side has a number where it is so thick, px. */
const THICK = 15;

/** A bar whose gradient is known, with its norm; Infinity also for a NaN in it. */
interface KnownBar {
  node: SceneNode;
  norm: number;
}

/**
 * How the known bars of one strip are filled, in order: as high as the gradient of their parameters is large beside the
 * others of the strip, on a linear scale from 0, or a logarithmic one where they are far apart.
 */
export function fillsOf(
  bars: readonly KnownBar[],
  measure: Measure,
): (Pick<TileGrad, "text" | "words"> & { share: number })[] {
  const { isLog, shareOf } = heightsOf(bars.map(({ norm }) => norm));
  const texts = textsFor(bars, measure);
  return bars.map(({ norm }, i) => ({
    text: texts[i],
    share: shareOf(norm),
    words: `height: ${isLog ? "logarithmic" : "linear"}`,
  }));
}

/** The heights of neighbouring bars, 0 to 1, and whether their scale is logarithmic. */
export function heightsOf(norms: readonly number[]) {
  const scale = logScale(norms);
  const isLog = scale !== null && scale.most > FAR_APART * scale.least;
  const shareOf = (norm: number) => {
    if (norm === 0 || !scale) return norm > 0 ? 1 : 0;
    if (norm === Number.POSITIVE_INFINITY) return 1;
    return isLog ? LOG_LEAST + (1 - LOG_LEAST) * placeOn(scale, norm) : norm / scale.most;
  };
  return { isLog, shareOf };
}

/** The numbers of a strip, in as many digits as there is room for on all of its bars; none where there is for one on none. */
function textsFor(bars: readonly KnownBar[], measure: Measure): string[] {
  const { bar } = bars[0].node;
  const room = bar?.room ?? 0;
  const fits = (text: string) =>
    bar?.grows === "up" ? measure(text, "name") + APART <= room : room >= THICK;
  for (const digits of [3, 2]) {
    const texts = bars.map(({ norm }) =>
      norm === Number.POSITIVE_INFINITY ? "NaN" : normText(norm, digits),
    );
    if (texts.every(fits)) return texts;
  }
  return bars.map(() => "");
}
