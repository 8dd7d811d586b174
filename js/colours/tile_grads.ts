import type { TileGrad } from "../paint/marks";
import { membersOf } from "../scene/members";
import { type ParametersGradient, parametersGradient, parametersIn } from "../scene/parameters";
import type { Scene, SceneNode } from "../scene/scene";
import type { Recording } from "../steps/recording";
import type { Measure } from "../text/measure";
import { counted, normText } from "../text/number";
import type { GraphModel } from "../wire";
import { fillsOf } from "./bars";
import { type LogScale, logScale, stepOn } from "./scale";

/** What arrived at the parameters in closed boxes, with the scale of their colours; null where none are positive. */
export interface TileGrads {
  /** By the index of a closed box, or of a bar. */
  tiles: ReadonlyMap<number, TileGrad>;
  scale: LogScale | null;
}

/** A closed box or bar whose gradient is known, and how many parameters it has. */
interface Known extends ParametersGradient {
  node: SceneNode;
  all: number;
}

/**
 * The norms of the gradients that one pass brought to the parameters in each closed box and each bar of a strip, all of
 * them as one vector, with colours on one scale.
 */
export function tileGrads(
  graph: GraphModel,
  scene: Scene,
  recording: Recording,
  measure: Measure,
): TileGrads {
  const isParameter = parametersIn(graph);
  const known: Known[] = [];
  for (const node of scene.nodes) {
    const leaves = leavesOf(node, isParameter);
    if (leaves.length === 0) continue;
    const gradient = parametersGradient(leaves, recording);
    if (!Number.isNaN(gradient.norm)) known.push({ node, all: leaves.length, ...gradient });
  }
  const scale = logScale(known.map(({ norm }) => norm));
  const tiles = new Map<number, TileGrad>();
  const strips = new Map<number, Known[]>();
  for (const one of known) {
    const { node, norm, from, reached, all } = one;
    const whole = reached === all ? counted(all, "parameter") : `${reached} of ${all} parameters`;
    const text = normText(norm);
    const tint = tintOfNorm(norm, scale);
    const words = `gradient norm of its ${whole}: ${text}`;
    tiles.set(node.index, { text, from, tint, words });
    if (!node.bar) continue;
    const strip = strips.get(node.bar.strip);
    if (strip) strip.push(one);
    else strips.set(node.bar.strip, [one]);
  }
  for (const strip of strips.values()) {
    fillsOf(strip, measure).forEach(({ text, share, words }, i) => {
      const { index } = strip[i].node;
      const grad = tiles.get(index);
      if (grad) tiles.set(index, { ...grad, text, share, words: `${grad.words} (${words})` });
    });
  }
  return { tiles, scale };
}

/** The parameters that a number on a drawn node is about; none of what has no number. */
function leavesOf(node: SceneNode, isParameter: (id: number) => boolean): readonly number[] {
  if (node.bar) return node.group?.leaves ?? [];
  return typeof node.shape.tile?.number === "number" ? membersOf(node).filter(isParameter) : [];
}

function tintOfNorm(norm: number, scale: LogScale | null): string {
  if (norm === Number.POSITIVE_INFINITY) return "is-c-alarm";
  return norm > 0 && scale ? `is-c${stepOn(scale, norm)}` : "is-c-zero";
}

/** The same without colours, for who wants none or others. */
export function uncoloured(tiles: TileGrads["tiles"]): TileGrads["tiles"] {
  return new Map(Array.from(tiles, ([index, grad]) => [index, { ...grad, tint: "" }]));
}
