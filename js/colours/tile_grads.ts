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

/** Gradients of the parameters in closed boxes, with their colour scale; null if none is positive. */
export interface TileGrads {
  /** By the index of a closed box or a bar. */
  tiles: ReadonlyMap<number, TileGrad>;
  scale: LogScale | null;
}

/** A closed box or bar with a known gradient, and its number of parameters. */
interface Known extends ParametersGradient {
  node: SceneNode;
  all: number;
}

/**
 * The gradient norm of the parameters in each closed box and each bar of a strip, taken as one vector. All share one
 * colour scale.
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

/** The parameters whose gradient a drawn node shows as a number. */
function leavesOf(node: SceneNode, isParameter: (id: number) => boolean): readonly number[] {
  if (node.bar) return node.group?.leaves ?? [];
  return typeof node.shape.tile?.number === "number" ? membersOf(node).filter(isParameter) : [];
}

function tintOfNorm(norm: number, scale: LogScale | null): string {
  if (norm === Number.POSITIVE_INFINITY) return "is-c-alarm";
  return norm > 0 && scale ? `is-c${stepOn(scale, norm)}` : "is-c-zero";
}

/** Return the same numbers without colours. */
export function uncoloured(tiles: TileGrads["tiles"]): TileGrads["tiles"] {
  return new Map(Array.from(tiles, ([index, grad]) => [index, { ...grad, tint: "" }]));
}
