import type { GraphModel } from "../wire";
import type { Recording } from "./recording";

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

/** The gradient that one backward pass brought some parameters. */
export interface ParametersGradient {
  /**
   * The root of the sum of the squares of all its numbers, as `clip_grad_norm_` has it; where every `.grad` was None
   * before, that of the `.grad`s. NaN where nothing arrives or not all is known, Infinity where there is a NaN or an
   * infinity in it.
   */
  norm: number;
  /** After how many steps all of it has arrived; 0 where nothing does. */
  from: number;
}

/**
 * Tells parameters from other leaves: where parameters go by dotted names, a leaf without one is what the model was
 * given.
 */
export function parameterTest({ nodes }: Pick<GraphModel, "nodes">): (id: number) => boolean {
  const areNamed = nodes.some(({ kind, name }) => kind === "leaf" && name?.includes("."));
  return (id) => nodes[id].kind === "leaf" && (nodes[id].name?.includes(".") ?? false) === areNamed;
}

/** A parameter belongs to the modules whose operations use it, and to those around them; one that several share, to each of them. */
export function moduleParameters(
  graph: GraphModel,
  { parent, groupOf }: Modules,
): ModuleParameters {
  const isParameter = parameterTest(graph);
  const users: number[][] = graph.nodes.map(() => []);
  for (const { source, target, kind } of graph.edges)
    if (kind === "gradient" && isParameter(target)) users[target].push(groupOf[source]);
  const leaves: number[][] = Array.from(parent, () => []);
  const numbers = new Float64Array(parent.length);
  for (const [id, used] of users.entries()) {
    const size = (graph.nodes[id].shape ?? [0]).reduce((product, length) => product * length, 1);
    for (const innermost of used) {
      for (let g = innermost; g >= 0 && leaves[g].at(-1) !== id; g = parent[g]) {
        leaves[g].push(id);
        numbers[g] += size;
      }
    }
  }
  return { leaves, numbers };
}

/** The gradient of these leaves, all together. */
export function parametersGradient(
  leaves: readonly number[],
  { gradients, stored, step }: Recording,
): ParametersGradient {
  let from = 0;
  // As shares of the largest, whose squares neither overflow nor vanish.
  let largest = 0;
  let squares = 0;
  for (const id of leaves) {
    if (step[id] === 0) continue;
    from = Math.max(from, step[id]);
    const held = stored.get(id);
    const norm = (gradients.get(id) ?? (held?.before === null ? held : undefined))?.norm ?? null;
    const known = norm === null ? Number.NaN : Number(norm);
    const size = norm === null || Number.isFinite(known) ? known : Number.POSITIVE_INFINITY;
    if (!(size <= largest)) {
      squares *= (largest / size) ** 2;
      largest = Number.isNaN(largest) ? largest : size;
    }
    if (size > 0) squares += (size / largest) ** 2;
  }
  if (from === 0) return { norm: Number.NaN, from };
  const isPlain = largest > 0 && largest < Number.POSITIVE_INFINITY;
  return { norm: isPlain ? largest * Math.sqrt(squares) : largest, from };
}
