import fc from "fast-check";
import { expect, it } from "vitest";
import { MODELS } from "../demo/models";
import { graphs } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { indexOf } from "./scene_index";

const shares = fc.tuple(
  ...Array.from({ length: 4 }, () => fc.double({ min: -0.2, max: 1.2, noNaN: true })),
);

it("finds what a look at every node and edge finds", () => {
  fc.assert(
    fc.property(graphs, shares, (graph, [x0, y0, x1, y1]) => {
      const scene = sceneOf(graph);
      const box = {
        left: Math.min(x0, x1) * scene.width,
        right: Math.max(x0, x1) * scene.width,
        top: Math.min(y0, y1) * scene.height,
        bottom: Math.max(y0, y1) * scene.height,
      };
      const index = indexOf(scene);
      // Bounds are 32-bit floats: a contact within a hundredth of a px may count either way.
      const isIn = (l: number, t: number, r: number, b: number, slack: number) =>
        l - slack < box.right &&
        r + slack > box.left &&
        t - slack < box.bottom &&
        b + slack > box.top;
      const check = (found: number[], all: [number, number, number, number][]) =>
        all.forEach((sides, i) => {
          if (isIn(...sides, -0.01)) expect(found).toContain(i);
          if (!isIn(...sides, 0.01)) expect(found).not.toContain(i);
        });
      const nodes = index.nodesIn(box);
      check(
        nodes,
        scene.nodes.map(({ x, y, shape: { outerWidth: w, outerHeight: h } }) => [
          x - w / 2,
          y - h / 2,
          x + w / 2,
          y + h / 2,
        ]),
      );
      check(
        index.edgesIn(box),
        scene.edges.map(({ bounds }) => bounds),
      );
      expect(index.count(box)).toBe(nodes.length);
    }),
    { numRuns: 60 },
  );
});

it("finds the node under a point, and beside it only within the slack", () => {
  const scene = sceneOf(MODELS["h = w * x + b"]());
  const index = indexOf(scene);
  for (const { x, y, shape, index: i } of scene.nodes) {
    expect(index.nodeAt(x, y, 0)).toBe(i);
    expect(index.nodeAt(x, y - shape.height / 2 - 3, 4)).toBe(i);
    expect(index.nodeAt(x, y - shape.height / 2 - 5, 4)).toBeNull();
  }
});
