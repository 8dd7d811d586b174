import type { ReduceInput } from "./reduce";

/** What follows a layer and belongs to it: its normalisation and its activation. */
const FOLLOWS = /Norm|luB|Sigmoid|Tanh|Hardtanh|Hardswish|Mish|Softplus|Dropout/;

/** What a node is to a layer: something that may follow it, an operand, or neither. */
export const OTHER = 0;
export const FOLLOWER = 1;
export const OPERAND = 2;

export function roleOfOp(kind: string, op: string): number {
  if (kind !== "op") return OPERAND;
  return FOLLOWS.test(op) ? FOLLOWER : OTHER;
}

/**
 * Has the closed box of a layer take in what follows it: a normalisation with its own parameters, an activation. It does
 * where nothing else uses the layer's result. Linear in nodes and edges.
 *
 * Args:
 *   graph: edges and groups.
 *   layers: per node its role, and per group whether it is one layer.
 *   box: per node, the closed box that it lies in, -1 where it shows; changed.
 *   keep: nodes to show nonetheless.
 */
export function joinLayers(
  { source, target, tree }: Pick<ReduceInput, "source" | "target" | "tree">,
  { role, isLayer }: { role: ArrayLike<number>; isLayer: ArrayLike<number> },
  box: Int32Array,
  keep: ReadonlySet<number>,
): void {
  const uses = new Int32Array(box.length);
  const operands: number[][] = Array.from(box, () => []);
  for (let e = 0; e < source.length; e++) {
    uses[target[e]]++;
    if (role[source[e]] === FOLLOWER) operands[source[e]].push(target[e]);
  }
  // What makes an operand comes after what uses it.
  for (let v = box.length - 1; v >= 0; v--) {
    if (role[v] !== FOLLOWER || keep.has(v)) continue;
    const own = operands[v].filter((t) => role[t] === OPERAND);
    const [made, ...more] = operands[v].filter((t) => role[t] !== OPERAND);
    if (made === undefined || more.length > 0 || uses[made] !== 1) continue;
    const layer = box[made];
    const around = box[v] < 0 ? tree.groupOf[v] : tree.parent[box[v]];
    const fits = layer >= 0 && isLayer[layer] && box[v] !== layer && around === tree.parent[layer];
    if (!fits || own.some((t) => uses[t] > 1 || box[t] !== box[v] || keep.has(t))) continue;
    for (const t of [v, ...own]) box[t] = layer;
  }
}
