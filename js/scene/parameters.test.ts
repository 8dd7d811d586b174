import { describe, expect, it } from "vitest";
import { transformer } from "../demo/deep_models";
import { groupedGraph } from "../fold/grouped_graph";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import type { GraphModel, JsonNumber, RunModel } from "../wire";
import { moduleParameters, parametersGradient } from "./parameters";

/** A pass with a gradient of this norm at each leaf, by its id. */
function passOf(graph: GraphModel, normOf: (leaf: number) => JsonNumber | null) {
  const { steps, run } = fakeRun(graph, "fine");
  const given: RunModel = {
    ...run,
    grads: [],
    arrived: [],
    norms: run.edges.map((edge, i) => {
      const { target } = graph.edges[edge];
      return graph.nodes[target].kind === "leaf" ? normOf(target) : run.norms[i];
    }),
  };
  return recordingOf(graph, steps, given);
}

/** The same slowly: every leaf of every path, from the names. */
function expected(graph: GraphModel, path: string, normOf: (leaf: number) => number): number {
  const prefix = `${path.replaceAll("/", ".")}.`;
  const leaves = graph.nodes.filter(
    ({ kind, name }) => kind === "leaf" && name?.startsWith(prefix),
  );
  return Math.hypot(...leaves.map(({ id }) => normOf(id)));
}

describe("the gradient of a module's parameters", () => {
  const graph = transformer(5);
  const { tree } = groupedGraph(graph);
  const parameters = moduleParameters(graph, tree);

  it("is the root of the sum of squares over all that lie in it, however deep", () => {
    for (const scale of [1, 1e-200, 1e200]) {
      const normOf = (id: number) => scale * ((id % 7) + 0.5);
      const recording = passOf(graph, normOf);
      tree.path.forEach((path, g) => {
        const { norm, from } = parametersGradient(parameters.leaves[g], recording);
        const wanted = expected(graph, path, normOf);
        if (path !== "" && wanted > 0) expect(norm / wanted).toBeCloseTo(1, 10);
        if (path !== "" && wanted === 0) expect(norm).toBeNaN();
        expect(from > 0).toBe(!Number.isNaN(norm));
      });
    }
  });

  it("counts the numbers in them", () => {
    const layer = tree.byPath.get("encoder/layers/3") ?? 0;
    // Four projections of 64 x 64, two norms, and up to 256 and down again.
    const size = 4 * (64 * 64 + 64) + 4 * 64 + 2 * 64 * 256 + 256 + 64;
    expect(parameters.numbers[layer]).toBe(size);
  });

  it("has arrived with the last of them", () => {
    const recording = passOf(graph, () => 1);
    for (const leaves of parameters.leaves) {
      const { from } = parametersGradient(leaves, recording);
      expect(from).toBe(Math.max(0, ...leaves.map((id) => recording.step[id])));
    }
  });

  it("is not told where a part of it is not known, and is infinite with a NaN in it", () => {
    const layer = tree.byPath.get("encoder/layers/3") ?? 0;
    const leaves = parameters.leaves[layer];
    const other = tree.byPath.get("encoder/layers/2") ?? 0;
    for (const one of leaves) {
      for (const [given, wanted] of [
        [null, Number.NaN],
        ["nan", Number.POSITIVE_INFINITY],
        ["inf", Number.POSITIVE_INFINITY],
      ] as const) {
        const recording = passOf(graph, (id) => (id === one ? given : 1));
        expect(parametersGradient(leaves, recording).norm).toBe(wanted);
        expect(parametersGradient(parameters.leaves[other], recording).norm).toBeGreaterThan(0);
      }
    }
    expect(
      parametersGradient(
        leaves,
        passOf(graph, () => 0),
      ).norm,
    ).toBe(0);
  });

  it("of a parameter that modules share counts for each of them, and once around them", () => {
    const leaf = graph.nodes.findIndex(({ name }) => name === "encoder.layers.0.linear1.weight");
    const users = graph.edges.filter(({ target }) => target === leaf);
    const twin = graph.nodes.find(
      ({ namespace, op }) => namespace === "encoder/layers/1/linear1" && op === "TBackward0",
    );
    const shared: GraphModel = {
      ...graph,
      edges: [...graph.edges, { ...users[0], source: twin?.id ?? 0 }],
    };
    const { leaves } = moduleParameters(shared, tree);
    const paths = leaves.flatMap((ids, g) =>
      ids.filter((id) => id === leaf).map(() => tree.path[g]),
    );
    expect(paths).toContain("encoder/layers/0/linear1");
    expect(paths).toContain("encoder/layers/1/linear1");
    expect(new Set(paths).size).toBe(paths.length);
  });

  it("takes time in keeping with the pairs of modules and parameters", () => {
    for (const layers of [1, 30, 300]) {
      const deep = transformer(layers);
      const { tree: modules } = groupedGraph(deep);
      const { leaves } = moduleParameters(deep, modules);
      const depth = Math.max(...modules.depth) + 1;
      expect(leaves.flat().length).toBeLessThanOrEqual(deep.edges.length * depth);
    }
  });
});
