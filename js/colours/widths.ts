import type { Widths } from "../paint/marks";
import { edgesOf } from "../scene/members";
import type { Scene } from "../scene/scene";
import { normText } from "../text/number";
import type { GradientNorms } from "./norms";
import { logScale, stepOn } from "./scale";

/** The widths of a scene's lines by the norms of their gradients, of a merged line by the largest; null without norms. */
export function widthsOf(scene: Scene, { edges: norms }: GradientNorms): Widths | null {
  const scale = logScale(norms);
  if (!scale) return null;
  const edges = scene.edges.map((edge) => {
    const known = edgesOf(edge).map((e) => norms[e]);
    const largest = Math.max(0, ...known.filter((norm) => norm > 0 && Number.isFinite(norm)));
    return largest > 0 ? `is-w${stepOn(scale, largest)}` : "";
  });
  const drawn = [...new Set(edges)].filter((name) => name !== "").sort();
  if (drawn.length === 0) return null;
  const ends =
    scale.least === scale.most
      ? [{ name: drawn[0], text: `gradient norm ${normText(scale.most)}` }]
      : [
          { name: "is-w0", text: `gradient norm ${normText(scale.least)}` },
          { name: "is-w8", text: `norm ${normText(scale.most)}` },
        ];
  return { edges, ends };
}
