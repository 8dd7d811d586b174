import { describe, expect, it } from "vitest";
import { chain, DEEP_MODELS } from "../demo/deep_models";
import { makeScene } from "../scene/make_scene";
import { flatPlan, type Plan } from "../scene/plan";
import { MODELS } from "../testing/graphs";
import { estimate } from "../text/measure";
import { firstFolding, setPlumbing, toDepth } from "./folding";
import { foldedPlan, groupedGraph } from "./grouped_graph";
import { isSurelyOverlong, OVERLONG } from "./overlong";

const models = Object.entries({ ...MODELS, ...DEEP_MODELS, chain: () => chain(600) });

/** A picture of so many nodes in a row, beside a node with so many neighbours. */
function fan(row: number, width: number): Plan {
  const { nodes, edges } = flatPlan(chain(row));
  const more = Array.from({ length: width }, (_, i) => nodes.length + i);
  const edge = edges[0];
  return {
    nodes: [...nodes, ...more.map((id) => ({ id, group: null, frame: -1 }))],
    edges: [...edges, ...more.map((target) => ({ ...edge, source: 0, target }))],
    frames: [],
    nodeOf: null,
    edgeOf: null,
  };
}

describe("isSurelyOverlong", () => {
  it.each(models)("is never wrong about %s", (_, make) => {
    const graph = make();
    const grouped = groupedGraph(graph);
    const first = firstFolding(grouped.tree);
    for (const folding of [first, setPlumbing(toDepth(grouped.tree, first, 2), false)]) {
      const picture = foldedPlan(grouped, folding);
      if (!isSurelyOverlong(picture)) continue;
      const { width, height } = makeScene(graph, picture, "down", estimate);
      expect(height / width).toBeGreaterThan(OVERLONG);
    }
  });

  it("tells a long chain from one that has something wide beside it", () => {
    expect(isSurelyOverlong(fan(2000, 0))).toBe(true);
    expect(isSurelyOverlong(fan(2000, 1000))).toBe(false);
  });

  it("counts the lines that pass a row as well as the nodes in it", () => {
    const rows = 1000;
    const { nodes, edges } = fan(10 * rows, 0);
    const [edge] = edges;
    const along = Array.from(nodes, (_, v) => ({ ...edge, source: v, target: v + 1 }));
    const columns = along.filter(({ target }) => target % rows !== 0 && target < nodes.length);
    const across = columns.map((line) => ({
      ...line,
      target: line.source + (rows - 1 - 2 * (line.source % rows)),
    }));
    const forward = across.filter(({ source, target }) => target > source);
    const picture = { ...fan(10 * rows, 0), nodes };
    expect(isSurelyOverlong({ ...picture, edges: columns })).toBe(true);
    expect(isSurelyOverlong({ ...picture, edges: [...columns, ...forward] })).toBe(false);
  });

  it("makes nothing of a picture that is all cycle, as boxes that feed each other are", () => {
    const { nodes, edges } = fan(2000, 0);
    const back = edges.map((edge) => ({ ...edge, source: edge.target, target: edge.source }));
    const picture = { ...fan(2000, 0), nodes, edges: [...edges, ...back] };
    expect(isSurelyOverlong(picture)).toBe(false);
  });
});
