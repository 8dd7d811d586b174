import type { GroupedEdges } from "./tree";

/** Operations that belong to the layer before: normalisation and activation. */
const FOLLOWS = /Native|BatchN|luB|moid|anh|ish|plus/;

const NORM = /Native|BatchN/;
const SUM = /^(Add|Sub)Backward0$/;

/** A node's role for a layer: a follower, an operand, a sum, or another. */
export const OTHER = 0;
const FOLLOWER = 1;
const OPERAND = 2;
/** A follower that may also follow a sum. */
const ACTIVATION = 3;
const ADDITION = 4;
const LOG_SOFTMAX = 5;
/** A negative log-likelihood: of a log softmax, the cross entropy. */
const LIKELIHOOD = 6;

export function roleOfOp(kind: string, op: string, isOutput: boolean): number {
  if (kind === "op" && /^NllLoss/.test(op)) return LIKELIHOOD;
  if (isOutput) return OTHER;
  if (kind !== "op") return OPERAND;
  if (/^LogSoftmax/.test(op)) return LOG_SOFTMAX;
  if (FOLLOWS.test(op)) return NORM.test(op) ? FOLLOWER : ACTIVATION;
  return SUM.test(op) ? ADDITION : OTHER;
}

export function isFollower(role: number): boolean {
  return role === FOLLOWER || role === ACTIVATION;
}

/**
 * Let a layer's closed box take in the normalisation and activation after it, if nothing else uses its result. Changes
 * `box`: per node, its closed box, -1 if it is drawn itself. `keep` are nodes to draw anyway.
 */
export function joinLayers(
  { source, target, tree }: GroupedEdges,
  role: ArrayLike<number>,
  isLayer: (group: number) => boolean,
  box: Int32Array,
  keep?: ReadonlySet<number>,
): void {
  const uses = new Int32Array(box.length);
  const operands: number[][] = Array.from(box, () => []);
  for (let e = 0; e < source.length; e++) {
    uses[target[e]]++;
    if (isFollower(role[source[e]])) operands[source[e]].push(target[e]);
  }
  // Operands come after their users.
  for (let v = box.length - 1; v >= 0; v--) {
    if (!isFollower(role[v])) continue;
    const own = operands[v].filter((t) => role[t] === OPERAND);
    const [made, ...more] = operands[v].filter((t) => role[t] !== OPERAND);
    const layer = box[made] ?? -1;
    const around = box[v] < 0 ? tree.groupOf[v] : tree.parent[box[v]];
    if (layer < 0 || more.length > 0 || uses[made] > 1 || around !== tree.parent[layer]) continue;
    if (!isLayer(layer) || own.some((t) => uses[t] > 1 || box[t] !== box[v])) continue;
    const joined = [v, ...own];
    if (!joined.some((t) => keep?.has(t))) for (const t of joined) box[t] = layer;
  }
}

/**
 * Let a sum take in the activation after it, and a likelihood the log softmax before it, if nothing else uses the result
 * between them. Absorbed nodes then have no box. Returns per node the one that it is drawn with; -1 for most.
 */
export function joinSums(
  { source, target, tree }: GroupedEdges,
  role: ArrayLike<number>,
  operations: ArrayLike<number>,
  box: Int32Array,
  keep?: ReadonlySet<number>,
): Int32Array {
  const sumOf = new Int32Array(box.length).fill(-1);
  const uses = new Int32Array(box.length);
  const takes = new Int32Array(box.length);
  for (let e = 0; e < source.length; e++) {
    uses[target[e]]++;
    takes[source[e]]++;
  }
  const activations = new Int32Array(tree.path.length);
  for (let v = 0; v < box.length; v++) if (role[v] === ACTIVATION) activations[tree.groupOf[v]]++;
  for (let e = 0; e < source.length; e++) {
    const [v, sum] = [source[e], target[e]];
    if (role[v] === LIKELIHOOD && role[sum] === LOG_SOFTMAX) {
      const areBeside = box[v] < 0 && box[sum] < 0 && tree.groupOf[v] === tree.groupOf[sum];
      if (areBeside && uses[sum] === 1 && !keep?.has(sum)) sumOf[sum] = v;
      continue;
    }
    if (role[v] !== ACTIVATION || role[sum] !== ADDITION || box[sum] >= 0) continue;
    if (uses[sum] !== 1 || takes[v] !== 1 || keep?.has(v)) continue;
    // Beside the sum itself, or in a module with nothing else.
    const g = tree.groupOf[v];
    const isAlone = box[v] === g && activations[g] === operations[g];
    const around = box[v] < 0 ? g : isAlone ? tree.parent[g] : -1;
    if (around !== tree.groupOf[sum]) continue;
    sumOf[v] = sum;
    box[v] = -1;
  }
  return sumOf;
}
