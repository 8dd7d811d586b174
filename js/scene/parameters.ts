import type { Recording } from "../steps/recording";
import type { GraphModel, JsonNumber } from "../wire";

/** Which nodes are parameters: leaves, but where these go by dotted names one without is what the model was given. */
export function parametersIn({ nodes }: Pick<GraphModel, "nodes">): (id: number) => boolean {
  const isDotted = (id: number) => nodes[id].name?.includes(".") ?? false;
  const areNamed = nodes.some(({ kind, id }) => kind === "leaf" && isDotted(id));
  return (id) => nodes[id].kind === "leaf" && isDotted(id) === areNamed;
}

/** How many numbers a tensor of this shape holds; 0 where it is not known. */
export function sizeOf(shape: readonly number[] | null): number {
  return (shape ?? [0]).reduce((product, size) => product * size, 1);
}

/** The part of a tree of modules that is needed here; group 0 is the whole graph, and parents precede their children. */
interface Modules {
  /** Per group, the group around it; -1 for the whole graph. */
  parent: ArrayLike<number>;
  /** Per graph node, the innermost group that it lies in. */
  groupOf: ArrayLike<number>;
}

/** The parameters of each module, by group. */
export interface ModuleParameters {
  /** Ids of leaves. */
  leaves: readonly (readonly number[])[];
  /** How many numbers they hold. */
  numbers: Float64Array;
}

/** A parameter belongs to the modules whose operations use it, and to those around them; one that several share, to each of them. */
export function moduleParameters(
  graph: GraphModel,
  { parent, groupOf }: Modules,
): ModuleParameters {
  const isParameter = parametersIn(graph);
  const users: number[][] = graph.nodes.map(() => []);
  for (const { source, target, kind } of graph.edges)
    if (kind === "gradient" && isParameter(target)) users[target].push(groupOf[source]);
  const leaves: number[][] = Array.from(parent, () => []);
  const numbers = new Float64Array(parent.length);
  for (const [id, used] of users.entries()) {
    const size = sizeOf(graph.nodes[id].shape);
    for (const innermost of used) {
      for (let g = innermost; g >= 0 && leaves[g].at(-1) !== id; g = parent[g]) {
        leaves[g].push(id);
        numbers[g] += size;
      }
    }
  }
  return { leaves, numbers };
}

/** The gradient that one backward pass brought some parameters. */
export interface ParametersGradient {
  /**
   * The root of the sum of the squares of all its numbers, as `clip_grad_norm_` has it. NaN where nothing arrives or not
   * all is known, Infinity where there is a NaN or an infinity in it.
   */
  norm: number;
  /** After how many steps all of it has arrived; 0 where nothing does. */
  from: number;
  /** How many of them it arrives at. */
  reached: number;
}

/** The gradient of these leaves, all of them as one vector. */
export function parametersGradient(
  leaves: readonly number[],
  recording: Recording,
): ParametersGradient {
  let norm = 0;
  let from = 0;
  let reached = 0;
  for (const id of leaves) {
    if (recording.step[id] === 0) continue;
    norm = Math.hypot(norm, arrivedAt(recording, id));
    from = Math.max(from, recording.step[id]);
    reached++;
  }
  return { norm: reached === 0 ? Number.NaN : norm, from, reached };
}

/** The norm of what a pass added to a leaf's `.grad`; NaN where it is not known, Infinity also for a NaN or Inf in it. */
function arrivedAt({ stored, gradients }: Recording, leaf: number): number {
  const grown = stored.get(leaf);
  const few = grown && grown.before === null ? grown : gradients.get(leaf);
  return normOf(few?.norm ?? null);
}

/** As a number; NaN where it is not known, Infinity also for a NaN. */
export function normOf(norm: JsonNumber | null): number {
  if (norm === null) return Number.NaN;
  const value = Number(norm);
  return Number.isFinite(value) ? value : Number.POSITIVE_INFINITY;
}
