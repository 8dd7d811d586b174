import type { BarGrad } from "../paint/marks";
import type { Scene, SceneNode } from "../scene/scene";
import { parametersGradient } from "../steps/module_norms";
import type { Recording } from "../steps/recording";
import { normNumber } from "../text/gradient";
import type { Measure } from "../text/measure";
import { NOT_FINITE, NOTHING, ZERO } from "./colouring";
import { type LogScale, logScale, placeOn, stepOn } from "./scale";

/** Norms further apart than this would leave the least of them no height on a linear scale. */
const FAR_APART = 50;
/** On a logarithmic scale the least norm still has this much. */
const LOG_LEAST = 0.06;
/** Between a number and the next bar's, px. */
const APART = 3;
/** A bar that lies on its side has a number where it is so thick, px. */
const THICK = 15;

/**
 * How the bars of all strips in a picture are filled: as high as the gradient of their parameters is large, beside the
 * others of the strip, on a linear scale from 0, or a logarithmic one where they are far apart. The colour is on the one
 * logarithmic scale of all closed modules.
 */
export function barsOf(
  { nodes }: Scene,
  recording: Recording,
  measure: Measure,
): Map<number, BarGrad> {
  const known = new Map<SceneNode, { norm: number; from: number }>();
  for (const node of nodes)
    if (node.group && !node.gate) known.set(node, parametersGradient(node.group.leaves, recording));
  const colours = logScale([...known.values()].map(({ norm }) => norm));
  const strips = new Map<number, SceneNode[]>();
  for (const node of known.keys())
    if (node.bar) strips.set(node.bar.strip, [...(strips.get(node.bar.strip) ?? []), node]);
  const bars = new Map<number, BarGrad>();
  for (const strip of strips.values()) {
    const norms = strip.map((node) => known.get(node)?.norm ?? Number.NaN);
    const scale = logScale(norms);
    const isLog = scale !== null && scale.most > FAR_APART * scale.least;
    const texts = textsFor(strip, norms, measure);
    strip.forEach((node, i) => {
      const { norm, from } = known.get(node) ?? { norm: Number.NaN, from: 0 };
      if (Number.isNaN(norm)) return;
      const words =
        norm === Number.POSITIVE_INFINITY
          ? "NaN or Inf in the gradient of its parameters"
          : `norm of the gradient of its parameters ${normNumber(norm)}`;
      bars.set(node.index, {
        text: texts[i],
        tint: tintOf(norm, colours),
        share: shareOf(norm, scale, isLog),
        from,
        words: `${words} (height: ${isLog ? "logarithmic" : "linear"})`,
      });
    });
  }
  return bars;
}

function shareOf(norm: number, scale: LogScale | null, isLog: boolean): number {
  if (norm === 0 || !scale) return norm > 0 ? 1 : 0;
  if (norm === Number.POSITIVE_INFINITY) return 1;
  return isLog ? LOG_LEAST + (1 - LOG_LEAST) * placeOn(scale, norm) : norm / scale.most;
}

function tintOf(norm: number, scale: LogScale | null): string {
  if (norm === Number.POSITIVE_INFINITY) return NOT_FINITE;
  if (norm === 0) return ZERO;
  return scale ? `is-c${stepOn(scale, norm)}` : NOTHING;
}

/** The numbers of a strip, in as many digits as there is room for on all of its bars; none where there is for one on none. */
function textsFor(strip: readonly SceneNode[], norms: readonly number[], measure: Measure) {
  const room = strip[0].bar?.room ?? 0;
  const fits = (text: string) =>
    strip[0].bar?.grows === "up" ? measure(text, "title") + APART <= room : room >= THICK;
  for (const digits of [3, 2]) {
    const texts = norms.map((norm) =>
      Number.isNaN(norm)
        ? ""
        : norm === Number.POSITIVE_INFINITY
          ? "NaN"
          : normNumber(norm, digits),
    );
    if (texts.every(fits)) return texts;
  }
  return norms.map(() => "");
}
