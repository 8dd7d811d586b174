import { expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { firstFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import type { Scene } from "../scene/scene";
import { judge } from "../testing/drawn";
import { tableMeasure } from "../text/metrics";

/** A module that is called twice, as a GAN's discriminator: the first operand of the loss has the longer way. */
function twoCalls() {
  const g = new Builder();
  g.namespace = "net";
  const weight = g.leaf("net.weight", [1, 1]);
  const call = (name: string) => {
    g.namespace = "";
    const input = g.op(`${name}Backward0`, [3, 1], { self: g.leaf(name, [3, 1]) });
    g.namespace = "net";
    const made = g.op("MmBackward0", [3, 1], { self: input, mat2: weight });
    g.namespace = "";
    return made;
  };
  const first = g.op("NegBackward0", [3, 1], { self: call("Tanh") });
  const mean = g.op("MeanBackward0", [], { self: first });
  const second = g.op("MeanBackward0", [], { self: call("Sin") });
  return g.graph([g.op("AddBackward0", [], { self: mean, other: second }, "loss"), "loss"]);
}

/** The points where lines of a scene cross. */
function crossings({ nodes, edges }: Scene): number {
  const points: number[] = [];
  const start = [0];
  for (const { curve } of edges) {
    for (let i = 0; i < curve.length; i += 6) points.push(curve[i], curve[i + 1]);
    start.push(points.length);
  }
  const [x, y] = [nodes.map((node) => node.x), nodes.map((node) => node.y)];
  const [width, height] = [
    nodes.map(({ shape }) => shape.width),
    nodes.map(({ shape }) => shape.height),
  ];
  const ends = {
    source: edges.map((edge) => edge.source),
    target: edges.map((edge) => edge.target),
  };
  return judge({ x, y, width, height, ...ends, points, start }).crossings;
}

it("orders the inputs of a module's calls like the users of its calls, open or closed", () => {
  const graph = twoCalls();
  const grouped = groupedGraph(graph);
  const open = firstFolding(grouped.tree);
  const orders = [open, { ...open, open: new Set<string>() }].map((folding) => {
    const scene = foldedScene(grouped, folding, "left", tableMeasure);
    expect(crossings(scene)).toBe(0);
    const inputs = scene.nodes.filter(({ id }) => /Tanh|Sin/.test(graph.nodes[id].op));
    return inputs.sort((a, b) => a.y - b.y).map(({ id }) => graph.nodes[id].op);
  });
  expect(orders[0]).toHaveLength(2);
  expect(orders[0]).toEqual(orders[1]);
});
