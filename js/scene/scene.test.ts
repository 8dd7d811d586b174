import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NO_MODULES, PLAIN_NODE } from "../demo/build_graph";
import { DIRECTIONS, type Direction, flow, isHorizontal } from "../layout/direction";
import { graphs, MODELS } from "../testing/graphs";
import { plainSceneOf, sceneOf } from "../testing/scenes";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { pointAt } from "./curve";
import { type Box, overlap } from "./grid";
import type { Scene, SceneNode } from "./scene";
import { MOST_USES_OF_ONE } from "./sizes";

/** The defects of a scene, in words. */
function faults(scene: Scene): string[] {
  const found: string[] = [];
  const parts = scene.nodes.map((node) => partsOf(node));
  parts.forEach((mine, i) => {
    for (let j = i + 1; j < parts.length; j++) {
      for (const a of mine) {
        for (const b of parts[j]) if (overlap(a, b)) found.push(`node ${i} covers node ${j}`);
      }
    }
  });
  const labels = scene.edges.flatMap(({ label, index }) =>
    label ? [{ index, box: around(label.x, label.y, label.width, label.height) }] : [],
  );
  labels.forEach(({ index, box }, i) => {
    parts.forEach((mine, node) => {
      if (mine.some((part) => overlap(part, box)))
        found.push(`label of edge ${index} covers node ${node}`);
    });
    for (const other of labels.slice(i + 1)) {
      if (overlap(box, other.box))
        found.push(`labels of edges ${index} and ${other.index} overlap`);
    }
  });
  const [fx, fy] = flow(scene.direction);
  for (const edge of scene.edges) {
    const steps = Array.from({ length: 33 }, (_, i) => pointAt(edge.curve, i / 32));
    steps.slice(1).forEach(([x, y], i) => {
      if ((x - steps[i][0]) * fx + (y - steps[i][1]) * fy < -0.01)
        found.push(`edge ${edge.index} turns back`);
    });
    for (const [end, at] of [
      [edge.source, steps[0]],
      [edge.target, steps[32]],
    ] as const) {
      if (!isOnBorder(scene.nodes[end], at, scene.direction))
        found.push(`edge ${edge.index} ends off its box`);
    }
    scene.nodes.forEach((node, i) => {
      if (i === edge.source || i === edge.target) return;
      const { left, top, right, bottom } = around(
        node.x,
        node.y,
        node.shape.width,
        node.shape.height,
      );
      if (steps.some(([x, y]) => x > left + 1 && x < right - 1 && y > top + 1 && y < bottom - 1)) {
        found.push(`edge ${edge.index} runs through node ${i}`);
      }
    });
  }
  return found;
}

/** The boxes of a node and its stubs. */
function partsOf({ x, y, shape }: SceneNode): Box[] {
  return [
    around(x, y, shape.width + 2 * shape.outline, shape.height + 2 * shape.outline),
    ...shape.stubs.map(
      ({ text, argument, rest, x: markX }): Box => ({
        left: x + markX - 3,
        top: y + text.y - 9,
        right: x + text.x + estimate(argument + rest, "stub"),
        bottom: y + text.y + 2,
      }),
    ),
  ];
}

function around(x: number, y: number, width: number, height: number): Box {
  return { left: x - width / 2, top: y - height / 2, right: x + width / 2, bottom: y + height / 2 };
}

function isOnBorder(
  { x, y, shape }: SceneNode,
  [px, py]: [number, number],
  direction: Direction,
): boolean {
  const { sign } = shape.card ?? {};
  if (sign) {
    const [ox, oy] = [Math.abs(px - x - sign.x), Math.abs(py - y - sign.y)];
    const isOnSide = Math.abs(ox - sign.width / 2) <= 0.6 && oy <= 0.6;
    if (isOnSide || (Math.abs(oy - sign.height / 2) <= 0.6 && ox <= 0.6)) return true;
  }
  const grow = shape.outline + 0.6;
  const dx = Math.abs(px - x);
  const dy = Math.abs(py - y);
  const across = isHorizontal(direction)
    ? dy <= shape.height / 2 + grow
    : dx <= shape.width / 2 + grow;
  const along = isHorizontal(direction)
    ? Math.abs(dx - shape.width / 2)
    : Math.abs(dy - shape.height / 2);
  // A line to a docked node is between the facing sides.
  const [beside, middle] = isHorizontal(direction)
    ? [Math.abs(dy - shape.height / 2), dx - shape.width / 2]
    : [Math.abs(dx - shape.width / 2), dy - shape.height / 2];
  if (beside <= 0.6 && middle <= 0) return true;
  return across && along <= grow + (isHorizontal(direction) ? 0 : shape.outerHeight - shape.height);
}

describe("makeScene", () => {
  const small = Object.entries(MODELS).filter(([name]) => !name.includes("00"));
  it.each(small)("draws %s without faults in every direction", (_, model) => {
    for (const direction of DIRECTIONS) expect(faults(sceneOf(model(), direction))).toEqual([]);
  });

  it("draws any graph without faults in every direction", () => {
    fc.assert(
      fc.property(graphs, fc.constantFrom(...DIRECTIONS), (graph, direction) => {
        expect(faults(sceneOf(graph, direction))).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  it("draws nothing for nothing", () => {
    const empty = {
      static: false,
      modules: NO_MODULES,
      nodes: [],
      edges: [],
      roots: [],
      checkpoints: [],
      derivatives: [],
      ranks: null,
      plan: null,
    };
    expect(sceneOf(empty)).toMatchObject({ nodes: [], edges: [], drawn: [] });
  });

  it("stays inside its own size", () => {
    fc.assert(
      fc.property(graphs, fc.constantFrom(...DIRECTIONS), (graph, direction) => {
        const scene = sceneOf(graph, direction);
        for (const { x, y, shape } of scene.nodes) {
          const box = around(x, y, shape.outerWidth, shape.outerHeight);
          expect(box.left).toBeGreaterThan(-0.01);
          expect(box.top).toBeGreaterThan(-0.01);
          expect(box.right).toBeLessThan(scene.width + 0.01);
          expect(box.bottom).toBeLessThan(scene.height + 0.01);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("puts an output on the side where gradients start", () => {
    const ends: Record<Direction, (a: SceneNode, b: SceneNode) => boolean> = {
      // A docked node is beside the output.
      down: (root, leaf) => root.y <= leaf.y,
      up: (root, leaf) => root.y >= leaf.y,
      right: (root, leaf) => root.x <= leaf.x,
      left: (root, leaf) => root.x >= leaf.x,
    };
    for (const direction of DIRECTIONS) {
      const { nodes } = sceneOf(MODELS["h = w * x + b"](), direction);
      expect(nodes.slice(1).every((node) => ends[direction](nodes[0], node))).toBe(true);
    }
  });

  it("draws a leaf once up to three uses, on a board up to eight, and once per use beyond", () => {
    const used = (times: number): GraphModel => ({
      static: false,
      modules: NO_MODULES,
      checkpoints: [],
      derivatives: [],
      ranks: null,
      plan: null,
      nodes: Array.from({ length: times + 1 }, (_, id) => ({
        ...PLAIN_NODE,
        id,
        kind: id === times ? "leaf" : "op",
        op: "O",
        label: "w",
        name: id === times ? "w" : null,
        shape: [2],
      })),
      edges: Array.from({ length: times }, (_, source) => ({
        source,
        target: times,
        argument: null,
        arg_nr: 0,
        output_nr: 0,
        via: null,
        kind: "gradient",
      })),
      roots: [{ node: 0, output_nr: 0, name: "y" }],
    });
    expect(sceneOf(used(MOST_USES_OF_ONE)).drawn[MOST_USES_OF_ONE]).toHaveLength(1);
    expect(sceneOf(used(8)).drawn[8]).toHaveLength(1);
    expect(sceneOf(used(9)).drawn[9]).toHaveLength(9);
    const many = plainSceneOf(used(7));
    expect(many.drawn[7]).toHaveLength(7);
    expect(many.nodes[7].shape.texts.map(({ text }) => text)).toContain("×7");
  });

  it("labels both edges of a square and writes stubs", () => {
    const scene = plainSceneOf(MODELS["x used three times"]());
    expect(scene.edges.map(({ label }) => label?.text)).toEqual([
      "self",
      "other",
      "self",
      "other",
      "self",
    ]);
    expect(scene.nodes.flatMap(({ shape }) => shape.stubs.map((s) => s.argument + s.rest))).toEqual(
      ["constant"],
    );
  });
});
