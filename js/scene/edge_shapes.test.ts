import { expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { transformer } from "../demo/deep_models";
import { firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { boxIn, overlap } from "./grid";

/** Boxes in a row whose last product takes the first one, too. */
function boxes(shape: number[]): GraphModel {
  const g = new Builder();
  const x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
  const block = (name: string, self: number, given: number[]) => {
    g.namespace = name;
    const weighed = g.op("MulBackward0", given, { self, other: g.leaf(`${name}.w`, given) });
    const made = g.op("TanhBackward0", given, { self: weighed });
    g.namespace = "";
    return made;
  };
  const a = block("a", x, shape);
  let b = block("b", a, [8, 8]);
  for (let i = 0; i < 4; i++) b = block(`c${i}`, b, [8, 8]);
  return g.graph([g.op("MulBackward0", [8, 8], { self: b, other: a }), "y"]);
}

function shapesOn(graph: GraphModel) {
  const grouped = groupedGraph(graph);
  const folding = toDepth(grouped.tree, firstFolding(grouped.tree), 0);
  const { edges, nodes } = foldedScene(grouped, folding, "left", estimate);
  return edges.flatMap(({ label, source, target }) =>
    label ? [[label.text, nodes[source].group?.paths[0], nodes[target].group?.paths[0]]] : [],
  );
}

it("writes the shape of a tensor on a long arrow between boxes, and of no scalar", () => {
  const shapes = shapesOn(boxes([4, 16, 32]));
  expect(shapes).toContainEqual(["(4, 16, 32)", undefined, "a"]);
  expect(shapes.filter(([text]) => text === "(8, 8)").length).toBeLessThan(2);
  expect(shapesOn(boxes([]))).not.toContainEqual(["scalar", undefined, "a"]);
});

it("leaves line on both sides of a shape, and crosses no border of an open box", () => {
  let shown = 0;
  for (const [width, depth] of [1370, 736].flatMap((w) => [1, 2, 3].map((d) => [w, d]))) {
    const grouped = groupedGraph(transformer(6));
    const folding = toDepth(grouped.tree, firstFolding(grouped.tree), depth);
    const room = { width, height: 600 };
    const { edges, frames } = foldedScene(grouped, folding, "left", estimate, { room });
    for (const { label, bounds } of edges) {
      if (!label || !/^\(\d/.test(label.text)) continue;
      shown++;
      const [left, top, right, bottom] = bounds;
      expect(right - left + bottom - top).toBeGreaterThan(2.9 * label.width);
      const box = boxIn(label);
      for (const frame of frames) {
        const isInside =
          box.left > frame.left &&
          box.right < frame.right &&
          box.top > frame.top &&
          box.bottom < frame.bottom;
        expect(isInside || !overlap(box, frame)).toBe(true);
      }
    }
  }
  expect(shown).toBeGreaterThan(0);
});
