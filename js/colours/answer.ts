import type { GroupedGraph } from "../fold/grouped_graph";
import { moduleName } from "../scene/box_words";
import { isModule } from "../scene/module_class";
import { type Gradients, isRecording, parametersGradient, parametersIn } from "../scene/parameters";
import type { Scene } from "../scene/scene";
import { counted, normText } from "../text/number";
import { leavesOf } from "./tile_grads";

/** Less than this part of a gradient is left where it vanishes, as in `diagnose`; more than this times where it explodes. */
const VANISHING = 1e-4;
const EXPLODING = 1e4;
/** The most layers that are named. */
const MOST_NAMED = 2;

/** A module with parameters, and the norm of their gradient. */
interface Layer {
  name: string;
  leaves: readonly number[];
  norm: number;
  /** Whether a gradient reaches any of its parameters. */
  isReached: boolean;
  /** The least number of its nodes: they are numbered from the outputs. */
  first: number;
}

/**
 * The state of a model's gradients in one sentence; null where not all of them are known. Where all parameters are in
 * closed boxes, it quotes the numbers that these show.
 */
export function answerOf(
  grouped: GroupedGraph,
  scene: Pick<Scene, "nodes">,
  gradients: Gradients,
): string | null {
  if (isRecording(gradients) && gradients.run?.ended !== "done") return null;
  const said = [gradientsIn(grouped, scene, gradients), cutsIn(grouped)].filter(Boolean);
  return said.length > 0 ? said.join(" · ") : null;
}

/** The modules of which `detach()` cuts an input. */
function cutsIn({ graph, tree }: GroupedGraph): string | null {
  const { nodes, edges } = graph;
  const cut = edges.find(({ source, target }) => {
    const { kind, label } = nodes[target];
    return kind === "cut" && label === "detach()" && tree.groupOf[source] > 0;
  });
  if (!cut) return null;
  const path = tree.path[tree.groupOf[cut.source]];
  return isModule(path) ? `detach() cuts the gradient at ${moduleName(path, graph)}` : null;
}

function gradientsIn(
  grouped: GroupedGraph,
  { nodes }: Pick<Scene, "nodes">,
  gradients: Gradients,
): string | null {
  const layers = layersOf(grouped, gradients);
  if (layers.length < 2) return null;
  const where = (some: readonly Layer[]) =>
    some.length <= MOST_NAMED
      ? some.map(({ name }) => name).join(" and ")
      : `${some.length} of ${layers.length} layers`;
  const missed = layers.filter(({ isReached }) => !isReached);
  if (missed.length > 0) return `no gradient reaches ${where(missed)}`;
  if (layers.some(({ norm }) => Number.isNaN(norm))) return null;
  const infinite = layers.filter(({ norm }) => norm === Number.POSITIVE_INFINITY);
  if (infinite.length > 0) return `NaN or Inf in the gradient of ${where(infinite)}`;
  const zero = layers.filter(({ norm }) => norm === 0);
  if (zero.length > 0) return `the gradient of ${where(zero)} is 0`;
  const at = ({ name, norm }: Layer) => `${normText(norm)} at ${name}`;
  const isParameter = parametersIn(grouped.graph);
  const closed = new Set<number>();
  const boxes = nodes.flatMap((node): Layer[] => {
    const leaves = node.group ? leavesOf(node, isParameter) : [];
    if (!node.group || leaves.length === 0 || !isModule(node.group.paths[0])) return [];
    const { members, paths } = node.group;
    for (const leaf of leaves) closed.add(leaf);
    return [layerOf(grouped, gradients, paths[0], leaves, Math.min(...members))];
  });
  const isAll = layers.every(({ leaves }) => leaves.every((leaf) => closed.has(leaf)));
  const drawn = boxes.length > 1 && isAll ? boxes.sort((a, b) => a.first - b.first) : layers;
  for (const [limit, words] of [
    [VANISHING, "falls"],
    [EXPLODING, "grows"],
  ] as const) {
    const [near, far] = largestChange(drawn, limit < 1);
    const ratio = far.norm / near.norm;
    if (limit < 1 ? ratio < limit : ratio > limit)
      return `the gradient ${words} from ${at(near)} to ${at(far)}`;
  }
  const held = isRecording(gradients) ? "gets a gradient" : "holds a .grad";
  const by = [...drawn].sort((a, b) => a.norm - b.norm);
  return `each of the ${counted(layers.length, "layer")} ${held}, ${at(by[0])} to ${at(by[by.length - 1])}`;
}

/** The innermost modules with parameters, nearest to the outputs first. */
function layersOf(grouped: GroupedGraph, gradients: Gradients): Layer[] {
  const { tree, parameters } = grouped;
  const { start } = tree.children;
  const first = new Map<number, number>();
  tree.groupOf.forEach((g, v) => {
    if (!first.has(g)) first.set(g, v);
  });
  return tree.path
    .flatMap((path, g): Layer[] => {
      const leaves = parameters.leaves[g];
      const isInner = g > 0 && start[g + 1] === start[g] && isModule(path);
      if (!isInner || leaves.length === 0) return [];
      return [layerOf(grouped, gradients, path, leaves, first.get(g) ?? 0)];
    })
    .sort((a, b) => a.first - b.first);
}

function layerOf(
  { graph }: GroupedGraph,
  gradients: Gradients,
  path: string,
  leaves: readonly number[],
  first: number,
): Layer {
  const { norm, reached } = parametersGradient(leaves, gradients);
  return { name: moduleName(path, graph), leaves, norm, isReached: reached > 0, first };
}

/** The layer, and the one further from the outputs, whose gradients have the smallest ratio, or the largest. */
function largestChange(layers: readonly Layer[], falls: boolean): [Layer, Layer] {
  let start = layers[0];
  let best: [Layer, Layer] = [start, start];
  const ratio = ([near, far]: [Layer, Layer]) => far.norm / near.norm;
  for (const layer of layers) {
    if (falls ? layer.norm > start.norm : layer.norm < start.norm) start = layer;
    const pair: [Layer, Layer] = [start, layer];
    if (falls ? ratio(pair) < ratio(best) : ratio(pair) > ratio(best)) best = pair;
  }
  return best;
}
