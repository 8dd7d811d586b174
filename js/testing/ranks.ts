import type { GraphModel, JsonNumber, NodeRanksModel } from "../wire";

/** A graph with strips over ranks: every autograd node has these norms, one per bar. */
export function withRanks(
  graph: GraphModel,
  most: readonly (JsonNumber | null)[],
  change: Partial<NodeRanksModel> = {},
  each = 1,
): GraphModel {
  const bars = most.map((_, bar) => bar);
  const autograd = graph.nodes.filter(({ kind }) => kind === "op" || kind === "leaf");
  return {
    ...graph,
    ranks: {
      shown: 0,
      count: each * most.length,
      first: bars.map((bar) => each * bar),
      last: bars.map((bar) => each * bar + each - 1),
      nodes: autograd.map(({ id }) => ({
        node: id,
        most: [...most],
        least: null,
        not_finite: [],
        without: [],
        beyond: [],
        odd: [],
        only: null,
        here: true,
        ...change,
      })),
      edges: [],
      elsewhere: [],
    },
  };
}
