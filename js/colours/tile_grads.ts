import type { TileGrad } from "../paint/marks";
import { membersOf } from "../scene/members";
import { parametersIn } from "../scene/parameters";
import type { Scene } from "../scene/scene";
import type { Recording } from "../steps/recording";
import { counted, normText } from "../text/number";
import type { GraphModel } from "../wire";
import { normOf } from "./gradient_norms";
import { type LogScale, logScale, stepOn } from "./scale";

/** What arrived at the parameters in closed boxes, with the scale of their colours; null where none are positive. */
export interface TileGrads {
  tiles: ReadonlyMap<number, TileGrad>;
  scale: LogScale | null;
}

/** The norms of the gradients that one pass brought to the parameters in each closed box, all of them as one vector. */
export function tileGrads(graph: GraphModel, scene: Scene, recording: Recording): TileGrads {
  const isParameter = parametersIn(graph);
  const found: { index: number; norm: number; from: number; reached: number; all: number }[] = [];
  for (const node of scene.nodes) {
    if (!node.shape.tile || node.shape.tile.number === null) continue;
    const parameters = membersOf(node).filter(isParameter);
    const reached = parameters.filter((id) => recording.step[id] > 0);
    let norm = 0;
    let from = 0;
    for (const id of reached) {
      norm = Math.hypot(norm, arrivedAt(recording, id));
      from = Math.max(from, recording.step[id]);
    }
    // Of a norm that is not known there is none of the whole.
    if (reached.length === 0 || Number.isNaN(norm)) continue;
    const { index } = node;
    found.push({ index, norm, from, reached: reached.length, all: parameters.length });
  }
  const scale = logScale(found.map(({ norm }) => norm));
  const tiles = new Map<number, TileGrad>();
  for (const { index, norm, from, reached, all } of found) {
    const whole = reached === all ? counted(all, "parameter") : `${reached} of ${all} parameters`;
    const text = normText(norm);
    tiles.set(index, {
      text,
      from,
      tint: tintOfNorm(norm, scale),
      words: `gradient norm of its ${whole}: ${text}`,
    });
  }
  return { tiles, scale };
}

/** The norm of what a pass added to a leaf's `.grad`; NaN where it is not known, Infinity also for a NaN or Inf in it. */
function arrivedAt({ stored, gradients }: Recording, leaf: number): number {
  const grown = stored.get(leaf);
  const few = grown && grown.before === null ? grown : gradients.get(leaf);
  return normOf(few?.norm ?? null);
}

function tintOfNorm(norm: number, scale: LogScale | null): string {
  if (norm === Number.POSITIVE_INFINITY) return "is-c-alarm";
  return norm > 0 && scale ? `is-c${stepOn(scale, norm)}` : "is-c-zero";
}

/** The same without colours, for who wants none or others. */
export function uncoloured(tiles: TileGrads["tiles"]): TileGrads["tiles"] {
  return new Map(Array.from(tiles, ([index, grad]) => [index, { ...grad, tint: "" }]));
}
