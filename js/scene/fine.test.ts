import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { transformer } from "../demo/deep_models";
import { firstFolding, openBlock, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { renewed } from "../interact/fold_controller";
import { isClose } from "../paint/level_of_detail";
import { sceneOf } from "../testing/scenes";
import { FONTS } from "../text/measure";
import { tableMeasure } from "../text/metrics";
import type { Scene, SceneNode } from "./scene";

/** Products in a row, more than are drawn as large cards. */
function products(count: number) {
  const g = new Builder();
  let x = g.leaf("x", [2, 2]);
  for (let i = 0; i < count; i++)
    x = g.op("MulBackward0", [2, 2], { self: x, other: g.leaf(`w${i}`, [2, 2]) });
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

function boxes(): Scene {
  const grouped = groupedGraph(transformer(6));
  const { tree } = grouped;
  const [run] = grouped.runs;
  const folding = openBlock(tree, toDepth(tree, firstFolding(tree), 2), run, tree.path[run[2]], 0);
  return foldedScene(grouped, folding, "left", tableMeasure);
}

function fineOf({ fine = [] }: SceneNode): string[] {
  return fine.map(({ text }) => text);
}

describe("the facts that are read only from close", () => {
  it("are the class, shape and size of a closed box, and the shape under a bar", () => {
    const { nodes } = boxes();
    const bars = nodes.filter(({ bar }) => bar);
    expect(bars.length).toBe(5);
    for (const bar of bars) expect(fineOf(bar)).toEqual([expect.stringMatching(/^\(\d.*\)$/)]);
    const tile = nodes.find(({ shape }) => shape.tile?.number);
    expect(tile && fineOf(tile).at(-1)).toMatch(/^\(\d.*\)/);
  });

  it("stay within their boxes, and are legible once they are shown", () => {
    const scale = 11 / FONTS.fine.size;
    expect([isClose(scale), isClose(scale * 0.99)]).toEqual([true, false]);
    for (const { nodes } of [sceneOf(products(6)), sceneOf(products(40)), boxes()]) {
      for (const { fine = [], shape, bar } of nodes) {
        for (const { text, style, x, y, anchor } of fine) {
          const width = tableMeasure(text, style);
          const left = anchor === "middle" ? x - width / 2 : x;
          const most = shape.width * (bar ? 0.6 : 0.5);
          expect(left).toBeGreaterThanOrEqual(-most);
          expect(left + width).toBeLessThanOrEqual(most);
          if (!bar) expect(Math.abs(y)).toBeLessThan(shape.height / 2);
        }
      }
    }
  });

  it("follow a value that changes", () => {
    const graph = products(40);
    const id = graph.nodes.findIndex(({ op }) => op === "MulBackward0");
    const valued = (value: number) => ({
      ...graph,
      nodes: graph.nodes.map((node) => (node.id === id ? { ...node, shape: [], value } : node)),
    });
    const scene = sceneOf(valued(2));
    const drawn = (of: Scene) => fineOf(of.nodes[of.drawn[id][0]]);
    expect(drawn(scene)).toContain("2");
    expect(drawn(renewed(scene, valued(3), tableMeasure))).toContain("3");
  });
});
