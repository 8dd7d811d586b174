import type { Layered } from "./dummies";
import { type Graph, makeGraph } from "./graph";

/**
 * The connection of a box' content to its surroundings. The graph's last nodes are ports, points on the top or bottom
 * border through which lines pass. Nodes that are boxes have lines at fixed places.
 */
export interface Border {
  /** The number of nodes, which come before the ports. */
  inside: number;
  /** Per port, 1 on the top border, 0 on the bottom border. */
  isTop: Uint8Array;
  /** The least distance between the ports and the next row, px. */
  topGap: number;
  bottomGap: number;
  /** Per edge, where it leaves its source and enters its target, px right of their x; NaN if free. */
  leave: Float64Array;
  arrive: Float64Array;
  /** Per node, how far its x is right of its box' middle, px: a box is placed by its main line. */
  lean: Float64Array;
  /**
   * Per node, a width for comparing orders, px. It does not depend on whether the node is open, so opening a box keeps
   * the order around it.
   */
  nominal: Float64Array;
}

/** Use the ranks of `rankInside`, with the top ports in a rank before them and the bottom ports in one after. */
export function rankWithPorts(
  graph: Graph,
  { inside, isTop }: Border,
  rankInside: (graph: Graph) => Int32Array,
): Int32Array {
  const edges = Int32Array.from(graph.source.keys()).filter(
    (e) => graph.source[e] < inside && graph.target[e] < inside,
  );
  const inner = makeGraph(
    inside,
    edges.map((e) => graph.source[e]),
    edges.map((e) => graph.target[e]),
  );
  const shift = isTop.includes(1) ? 1 : 0;
  const result = new Int32Array(graph.n);
  let bottom = 0;
  rankInside(inner).forEach((r, v) => {
    result[v] = r + shift;
    bottom = Math.max(bottom, result[v] + 1);
  });
  for (let v = inside; v < graph.n; v++) result[v] = isTop[v - inside] ? 0 : bottom;
  return result;
}

/** Merge parallel edges; also returns, per edge, the one that replaces it. */
export function withoutParallels(graph: Graph): { simple: Graph; standIn: Int32Array } {
  const { n, source, target } = graph;
  const seen = new Map<number, number>();
  const kept: number[] = [];
  const standIn = Int32Array.from(source, (v, e) => {
    const key = v * n + target[e];
    let found = seen.get(key);
    if (found === undefined) {
      found = kept.push(e) - 1;
      seen.set(key, found);
    }
    return found;
  });
  const pick = (ends: Int32Array) => Int32Array.from(kept, (e) => ends[e]);
  return { simple: makeGraph(n, pick(source), pick(target)), standIn };
}

/**
 * Per segment down and up (as in `Layered.down` and `up`), the offset from the neighbour that makes its line straight,
 * px.
 */
export interface Shifts {
  down: Float64Array;
  up: Float64Array;
}

/** The shifts for lines with fixed places on their boxes; parallel edges use their mean. */
export function shiftsOf(
  graph: Graph,
  layered: Layered,
  first: Int32Array,
  { leave, arrive }: Border,
): Shifts | undefined {
  if (leave.every(Number.isNaN) && arrive.every(Number.isNaN)) return undefined;
  const { rank, down, up, size } = layered;
  const sum = new Map<number, { sum: number; count: number }>();
  const note = (u: number, v: number, shift: number) => {
    const key = u * size + v;
    const known = sum.get(key);
    if (known) {
      known.sum += shift;
      known.count++;
    } else sum.set(key, { sum: shift, count: 1 });
  };
  for (let e = 0; e < first.length; e++) {
    const [s, t] = [graph.source[e], graph.target[e]];
    const out = leave[e] || 0;
    const into = arrive[e] || 0;
    // The lower end is aligned when its place on its box is below the upper end's place.
    if (first[e] === -1) note(s, t, out - into);
    else if (first[e] >= 0) {
      note(s, first[e], out);
      note(first[e] + rank[t] - rank[s] - 2, t, -into);
    }
  }
  const result = {
    down: new Float64Array(down.item.length),
    up: new Float64Array(up.item.length),
  };
  for (let v = 0; v < size; v++) {
    for (let j = down.start[v]; j < down.start[v + 1]; j++) {
      const known = sum.get(v * size + down.item[j]);
      if (known) result.down[j] = -known.sum / known.count;
    }
    for (let j = up.start[v]; j < up.start[v + 1]; j++) {
      const known = sum.get(up.item[j] * size + v);
      if (known) result.up[j] = known.sum / known.count;
    }
  }
  return result;
}
