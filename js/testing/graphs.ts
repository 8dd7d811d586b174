import fc from "fast-check";
import { NO_MODULES, PLAIN_NODE } from "../demo/build_graph";
import { MODELS } from "../demo/models";
import type { EdgeModel, GraphModel, NodeModel } from "../wire";

export { MODELS };

const names = fc.oneof(
  fc.constant(null),
  fc.string({ maxLength: 12 }),
  fc.string({ minLength: 60, maxLength: 120 }),
  fc.constant("<img src=x onerror=alert(1)>"),
);

/** Random graphs as Python sends them: edges run from lower to higher ids, leaves have none. */
export const graphs: fc.Arbitrary<GraphModel> = fc
  .record({
    nodes: fc.array(
      fc.record({
        leaf: fc.boolean(),
        name: names,
        shape: fc.option(fc.array(fc.nat(500), { maxLength: 5 })),
        noGrad: fc.array(fc.record({ arg_nr: fc.nat(9), argument: names }), { maxLength: 6 }),
      }),
      { minLength: 1, maxLength: 24 },
    ),
    edges: fc.array(fc.record({ a: fc.nat(), b: fc.nat(), argument: names }), { maxLength: 50 }),
    roots: fc.array(fc.record({ node: fc.nat(), name: names }), { minLength: 1, maxLength: 3 }),
  })
  .map(({ nodes, edges, roots }) => {
    const n = nodes.length;
    return {
      static: false,
      ranks: null,
      plan: null,
      modules: NO_MODULES,
      checkpoints: [],
      derivatives: [],
      nodes: nodes.map(
        ({ leaf, name, shape, noGrad }, id): NodeModel => ({
          ...PLAIN_NODE,
          id,
          kind: leaf ? "leaf" : "op",
          op: leaf ? "AccumulateGrad" : `Op${id}Backward0`,
          label: name ?? "leaf",
          name,
          shape,
          no_grad_inputs: leaf ? [] : noGrad,
        }),
      ),
      edges: edges
        .map(
          ({ a, b, argument }, i): EdgeModel => ({
            source: Math.min(a % n, b % n),
            target: Math.max(a % n, b % n),
            argument,
            arg_nr: i,
            output_nr: 0,
            via: null,
            kind: "gradient",
          }),
        )
        .filter(({ source, target }) => source !== target && !nodes[source].leaf),
      roots: roots.map(({ node, name }) => ({ node: node % n, output_nr: 0, name })),
    };
  });
