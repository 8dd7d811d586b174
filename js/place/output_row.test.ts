import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { firstFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import type { Placement } from "../scene/placement";
import type { Sized } from "../scene/sizes";
import { fitView, LEGIBLE } from "../scene/views";
import { tableMeasure } from "../text/metrics";
import { withOutputUnder } from "./output_row";

const NARROW = { width: 766, height: 680, tallest: 860 };

/** A network of stages of blocks in a box, then its loss; the last stage has so many. */
function network(stages: number, blocks: number, last: number, name = "block") {
  const g = new Builder();
  let x = g.leaf("x", [2, 8]);
  for (let stage = 0; stage < stages; stage++)
    for (let i = 0; i < (stage === stages - 1 ? last : blocks); i++) {
      g.namespace = `net/stage_${"abcd"[stage]}/${name}_${"abcde"[i]}`;
      const weight = g.leaf(`net.${stage}.${i}.weight`, [8, 8]);
      const made = g.op("MmBackward0", [2, 8], { self: x, mat2: weight });
      x = g.op("TanhBackward0", [2, 8], { self: made });
    }
  g.namespace = "";
  return g.graph([g.op("MeanBackward0", [], { self: x }, "loss"), "loss"]);
}

/** Its picture with all stages open, and the nodes beside its output, with it. */
function drawn(stages: number, blocks: number, last: number, name: string) {
  const grouped = groupedGraph(network(stages, blocks, last, name));
  const open = new Set(["net", ..."abcd"].map((part, i) => (i > 0 ? `net/stage_${part}` : part)));
  const folding = { ...firstFolding(grouped.tree), open, hidesPlumbing: true };
  const scene = foldedScene(grouped, folding, "left", tableMeasure, { room: NARROW });
  expect(fitView(scene, NARROW).k).toBeGreaterThanOrEqual(LEGIBLE);
  const output = scene.nodes.findIndex(({ root }) => root);
  const { y } = scene.nodes[output];
  return { scene, output, beside: scene.nodes.filter((node) => Math.abs(node.y - y) < 20) };
}

it.each([
  [3, 3, 5, "long_block"],
  [3, 4, 2, "block"],
  [4, 2, 4, "block"],
])("puts the output beside %i stages of %i blocks, the last of %i", (...sizes) => {
  expect(drawn(...sizes).beside.length).toBeGreaterThan(1);
});

it.each([
  [2, 5, 4, "a_longer_block"],
  [4, 4, 4, "block"],
])(
  "puts the output below %i stages of %i blocks, the last of %i: beside costs bends",
  (...sizes) => {
    const { scene, output, beside } = drawn(...sizes);
    expect(beside.length).toBe(1);
    const others = scene.nodes.filter(({ root }) => !root).map(({ y }) => y);
    expect(scene.nodes[output].y).toBeGreaterThan(Math.max(...others));
  },
);

describe("an output alone in the last row", () => {
  const graph = network(1, 1, 1);
  const output = graph.roots[0].node;
  const block = graph.nodes.findIndex(({ op }) => op === "TanhBackward0");
  const node = (id: number) => ({ id, group: null, frame: -1 });
  const size = { width: 80, height: 40, outerWidth: 80, outerHeight: 40 };
  const edge = { source: 0, target: 1, argument: null, count: 1, edges: [0], folded: [] };
  const sized = (edges = [edge]) =>
    ({
      graph,
      direction: "left",
      shapes: [size, size],
      plan: {
        nodes: [node(output), node(block)],
        edges,
        frames: [],
        edgeOf: null,
        nodeOf: Int32Array.from(graph.nodes, ({ id }) => [output, block].indexOf(id)),
      },
    }) as unknown as Sized;
  const none = new Float64Array(0);
  // Across and along the flow: the block's row ends at 20, the output below it begins there.
  const placed = {
    x: Float64Array.of(200, 50),
    y: Float64Array.of(60, 60),
    owner: Int32Array.of(0, 1),
    apart: new Uint8Array(1),
    width: 220,
    height: 120,
    boxes: { of: Int32Array.of(-1, -1), left: none, top: none, width: none, height: none },
    route: () => [
      [200, 100],
      [200, 110],
      [120, 110],
      [120, 8],
      [50, 8],
      [50, 20],
    ],
  } as unknown as Placement;

  it("is below the end of the row before it, with a line that has one corner", () => {
    const moved = withOutputUnder(placed, sized());
    // From the output's nearer border straight up, then to the block.
    const curve = moved.lines?.get(0) ?? [];
    expect(curve.slice(0, 2)).toEqual([180, 16]);
    expect(curve.slice(-2)).toEqual([50, 28]);
    expect(Math.max(...curve.filter((_, i) => i % 2))).toBe(28);
    // The line ends within the border; everything stays in the picture.
    expect(moved.y[0] - 40).toBe(0);
    expect(moved.y[1]).toBe(68);
    expect(moved.height).toBe(128);
  });

  it("stays if it has several lines, or if something is beside it", () => {
    expect(withOutputUnder(placed, sized([edge, { ...edge, edges: [1] }]))).toBe(placed);
    const near = { ...placed, x: Float64Array.of(70, 50) };
    expect(withOutputUnder(near, sized())).toBe(near);
  });
});
