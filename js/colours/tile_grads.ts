import { listsBy } from "../maps";
import type { TileGrad } from "../paint/marks";
import { membersOf } from "../scene/members";
import { isStep } from "../scene/module_class";
import {
  type Gradients,
  isRecording,
  normOf,
  type ParametersGradient,
  parametersGradient,
  parametersIn,
  sizeOf,
} from "../scene/parameters";
import type { Scene, SceneNode } from "../scene/scene";
import type { Recording } from "../steps/recording";
import type { Measure } from "../text/measure";
import { counted, normText } from "../text/number";
import type { GraphModel } from "../wire";
import { fillsOf } from "./bars";
import { gradientScale, type LogScale, stepOn } from "./scale";

/** Gradients of closed boxes and bars, with their colour scale; null if none is positive. */
export interface TileGrads {
  /** By the index of a closed box or a bar. */
  tiles: ReadonlyMap<number, TileGrad>;
  /** Whether they are what `.grad` holds now, rather than a pass. */
  areHeld: boolean;
  /** Whose gradients: "parameters", "steps", or "parameters and steps". */
  whose: string;
  scale: LogScale | null;
}

/** A closed box or bar with a known gradient. */
interface Known extends Pick<ParametersGradient, "norm" | "from"> {
  node: SceneNode;
  /** Whose gradient: "2 parameters". */
  whose: string;
}

/**
 * The gradient norm of the parameters in each closed box and each bar of a strip, taken as one vector; for the steps of
 * a loop, of their results; where no pass was recorded, of the parameters if each step has its own. All share one colour
 * scale, also with the boxes that are not shown now: `pass` has the norms of all.
 */
export function tileGrads(
  graph: GraphModel,
  scene: Scene,
  gradients: Gradients,
  measure: Measure,
  pass: readonly number[] = [],
): TileGrads {
  const isParameter = parametersIn(graph);
  const known: Known[] = [];
  const recording = isRecording(gradients) ? gradients : null;
  const resultsOf = recording ? stepResults(graph, scene, recording) : new Map<number, number[]>();
  const unknown = recording ? new Set<number>() : sharingSteps(graph, scene);
  for (const node of scene.nodes) {
    if (unknown.has(node.index)) continue;
    const results = resultsOf.get(node.index);
    if (recording && results) {
      const gradient = resultsGradient(results, recording);
      if (!Number.isNaN(gradient.norm)) known.push({ node, whose: "results", ...gradient });
      continue;
    }
    const leaves = leavesOf(node, isParameter);
    if (leaves.length === 0) continue;
    const { norm, from, reached } = parametersGradient(leaves, gradients);
    const all = leaves.length;
    const whose = reached === all ? counted(all, "parameter") : `${reached} of ${all} parameters`;
    if (!Number.isNaN(norm)) known.push({ node, norm, from, whose });
  }
  const scale = gradientScale(
    known.map(({ norm }) => norm),
    pass,
  );
  const steps = known.filter(({ node }) => resultsOf.has(node.index)).length;
  const tiles = new Map<number, TileGrad>();
  for (const { node, norm, from, whose } of known) {
    const text = normText(norm);
    const tint = tintOfNorm(norm, scale);
    const words = `${recording ? "gradient norm" : "norm of .grad"} of its ${whose}: ${text}`;
    tiles.set(node.index, { text, from, tint, words });
  }
  for (const strip of listsBy(known, ({ node }) => node.bar?.strip).values()) {
    fillsOf(strip, scale, measure).forEach(({ text, share }, i) => {
      const { index } = strip[i].node;
      const grad = tiles.get(index);
      if (grad)
        tiles.set(index, { ...grad, text, share, words: `${grad.words} (height: logarithmic)` });
    });
  }
  const kinds = [known.length > steps && "parameters", steps > 0 && "steps"];
  return { tiles, areHeld: !recording, whose: kinds.filter(Boolean).join(" and "), scale };
}

function isStepBar({ bar, group }: SceneNode): boolean {
  return bar !== undefined && group !== undefined && isStep(group.paths[0]);
}

/** The bars of steps that use leaves outside of them, such as the weights that all steps of an RNN share. */
function sharingSteps(graph: GraphModel, { nodes }: Scene): Set<number> {
  const barOf = new Map<number, number>();
  for (const node of nodes)
    if (isStepBar(node)) for (const id of membersOf(node)) barOf.set(id, node.index);
  const found = new Set<number>();
  if (barOf.size === 0) return found;
  for (const { source, target } of graph.edges) {
    const bar = barOf.get(source);
    if (bar !== undefined && graph.nodes[target].kind === "leaf" && barOf.get(target) !== bar)
      found.add(bar);
  }
  return found;
}

/**
 * By bar of a loop, the results of its step: the operations that the next step uses. A single number beside larger
 * results is left out: it is the sum of the losses, whose gradient is the same at every step. In the last step they
 * are at the same places as in the one before.
 */
function stepResults(
  { nodes, edges }: GraphModel,
  { nodes: drawn }: Scene,
  { step }: Recording,
): Map<number, readonly number[]> {
  const bars = drawn.filter(isStepBar);
  if (bars.length === 0) return new Map();
  const barOf = new Int32Array(nodes.length).fill(-1);
  /** Per bar, its operations in forward order: backward runs them the other way round. */
  const operations = new Map<number, readonly number[]>();
  for (const { index, group } of bars) {
    const members = (group?.members ?? []).filter((id) => nodes[id].kind === "op");
    for (const id of members) barOf[id] = index;
    operations.set(
      index,
      [...members].sort((a, b) => step[b] - step[a]),
    );
  }
  const isUsed = new Uint8Array(nodes.length);
  for (const { source, target, kind } of edges)
    if (kind === "gradient" && barOf[source] >= 0 && barOf[source] !== barOf[target])
      isUsed[target] = 1;
  const results = new Map<number, readonly number[]>();
  bars.forEach(({ index, bar }, i) => {
    const [own, before] = [operations.get(index) ?? [], bars[i - 1]];
    const isLast = bars[i + 1]?.bar?.strip !== bar?.strip;
    const last = (isLast && before?.bar?.strip === bar?.strip && results.get(before.index)) || null;
    const places = last?.map((id) => operations.get(before.index)?.indexOf(id) ?? -1);
    const used = places ? places.flatMap((at) => own[at] ?? []) : own.filter((id) => isUsed[id]);
    const large = used.filter((id) => sizeOf(nodes[id].shape) > 1);
    results.set(index, large.length > 0 ? large : used);
  });
  return results;
}

/** The gradient of these nodes' outputs as one vector. */
function resultsGradient(nodes: readonly number[], { gradients, ready }: Recording) {
  const norm = nodes.map((id) => normOf(gradients.get(id)?.norm ?? null));
  return {
    norm: norm.length > 0 ? Math.hypot(...norm) : Number.NaN,
    from: Math.max(0, ...nodes.map((id) => ready[id])),
  };
}

/** The parameters whose gradient a drawn node shows as a number. */
export function leavesOf(node: SceneNode, isParameter: (id: number) => boolean): readonly number[] {
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
