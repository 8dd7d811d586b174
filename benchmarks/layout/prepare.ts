import { copyShared } from "../../js/layout/copies";
import { flatPlan } from "../../js/scene/plan";
import { cardIn, sized } from "../../js/scene/sizes";
import { estimate } from "../../js/text/measure";
import type { GraphModel } from "../../js/wire";

/** A graph as every tool gets it: the boxes of our drawing, and the same copies of leaves with many uses. */
export interface Prepared {
  n: number;
  source: number[];
  target: number[];
  width: number[];
  height: number[];
}

/** The gaps of our drawing, px, which every tool is asked for. */
export const GAPS = { nodeGap: 26, rankGap: 50, edgeGap: 14 };

/** Edges alone, for a graph that no program made: all boxes of one size. */
export interface PlainGraph {
  n: number;
  source: number[];
  target: number[];
}

export function prepare(graph: GraphModel | PlainGraph): Prepared {
  if ("n" in graph) {
    return { ...graph, width: Array(graph.n).fill(80), height: Array(graph.n).fill(41) };
  }
  const plan = flatPlan(graph);
  const card = cardIn(graph, plan);
  const { shapes, times } = sized({ graph, plan, direction: "up", card }, estimate, {});
  const source = graph.edges.map((edge) => edge.source);
  const shared = Array.from(times, (copies) => (copies > 1 ? 1 : 0));
  const target = graph.edges.map((edge) => edge.target);
  const { owner, edgeTarget } = copyShared(graph.nodes.length, source, target, shared);
  return {
    n: owner.length,
    source,
    target: Array.from(edgeTarget),
    width: Array.from(owner, (v) => shapes[v].outerWidth),
    height: Array.from(owner, (v) => shapes[v].outerHeight),
  };
}
