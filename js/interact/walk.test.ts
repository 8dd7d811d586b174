import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DIRECTIONS } from "../layout/direction";
import { graphs, MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { firstStop, type Step, stepOf, walk } from "./walk";

describe("walk", () => {
  const graph = MODELS["h = w * x + b"]();
  const scene = sceneOf(graph);
  const label = (index: number | null) =>
    index === null ? null : graph.nodes[scene.nodes[index].id].label;

  it("starts at the output and goes to inputs, consumers and siblings", () => {
    const start = firstStop(scene, null);
    expect(label(start)).toBe("h");
    const product = walk(scene, start as number, "along");
    expect(label(product)).toBe("MulBackward0");
    // Docked nodes are beside it.
    expect(label(walk(scene, product as number, "after"))).toBe("x");
    expect(label(walk(scene, product as number, "against"))).toBe("h");
    expect(walk(scene, start as number, "against")).toBeNull();
    expect(firstStop(scene, 2)).toBe(2);
  });

  it("moves the way the arrow points, in every direction", () => {
    const axis = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] };
    fc.assert(
      fc.property(graphs, fc.constantFrom(...DIRECTIONS), fc.nat(), (graph, direction, pick) => {
        const scene = sceneOf(graph, direction);
        const from = pick % scene.nodes.length;
        for (const [key, [dx, dy]] of Object.entries(axis)) {
          const next = walk(scene, from, stepOf(key, direction) as Step);
          if (next === null) continue;
          const moved =
            (scene.nodes[next].x - scene.nodes[from].x) * dx +
            (scene.nodes[next].y - scene.nodes[from].y) * dy;
          // A step to or from a docked node goes to the side.
          if (Math.abs(moved) > 0) expect(moved).toBeGreaterThan(0);
          else expect(["along", "against"]).toContain(stepOf(key, direction));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("steps back to where it came from", () => {
    fc.assert(
      fc.property(graphs, fc.nat(), (graph, pick) => {
        const scene = sceneOf(graph);
        const from = pick % scene.nodes.length;
        const next = walk(scene, from, "along");
        if (next !== null) expect(walk(scene, next, "against", from)).toBe(from);
      }),
    );
  });
});
