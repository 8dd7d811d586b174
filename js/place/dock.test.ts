import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { firstFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { DIRECTIONS, flow, isHorizontal } from "../layout/direction";
import type { Scene, SceneNode } from "../scene/scene";
import { sceneOf } from "../testing/scenes";
import { tableMeasure } from "../text/metrics";
import type { GraphModel } from "../wire";

/** (w * x + b - y) ** 2, where x and y need no grad. */
function neuron() {
  const g = new Builder();
  const times = g.op("MulBackward0", [], { self: g.leaf("w", []), other: g.leaf("x", []) });
  const pred = g.op("AddBackward0", [], { self: times, other: g.leaf("b", []) });
  const error = g.op("SubBackward0", [], { self: pred, other: g.leaf("y", []) });
  return withConstants(g.graph([g.op("PowBackward0", [], { self: error }), "loss"]), "x", "y");
}

/** The same with some leaves that need no grad. */
function withConstants({ nodes, edges, ...rest }: GraphModel, ...names: string[]): GraphModel {
  const isOne = (id: number) => names.includes(nodes[id].name ?? "");
  return {
    ...rest,
    nodes: nodes.map((node) => (isOne(node.id) ? { ...node, kind: "constant" } : node)),
    edges: edges.map((edge) => (isOne(edge.target) ? { ...edge, kind: "constant" } : edge)),
  };
}

const graphOf = (make: (g: Builder) => number) => {
  const g = new Builder();
  return g.graph([make(g), "out"]);
};

/** The drawn nodes by their first text. */
function byTitle({ nodes }: Scene): Map<string, SceneNode> {
  return new Map(nodes.map((node) => [node.shape.texts[0].text, node]));
}

/** Per edge to a docked node, its two ends. */
function dockedIn(scene: Scene): [SceneNode, SceneNode][] {
  const along = isHorizontal(scene.direction) ? 0 : 1;
  return scene.edges.flatMap(({ source, target, curve }) => {
    const isDocked = Math.abs(curve[curve.length - 2 + along] - curve[along]) < 0.01;
    const ends: [SceneNode, SceneNode] = [scene.nodes[source], scene.nodes[target]];
    return isDocked ? [ends] : [];
  });
}

describe("docking", () => {
  it.each(DIRECTIONS)("keeps one straight line of operations, flowing %s", (direction) => {
    const scene = sceneOf(neuron(), direction);
    const across = isHorizontal(direction) ? "y" : "x";
    const docked = dockedIn(scene);
    expect(docked.map(([, leaf]) => leaf.shape.texts[0].text).sort()).toEqual(["b", "x", "y"]);
    const leaves = new Set(docked.map(([, leaf]) => leaf.index));
    const line = scene.nodes.filter(({ index }) => !leaves.has(index));
    expect(new Set(line.map((node) => node[across])).size).toBe(1);
    // Below it, or to its right.
    for (const [user, leaf] of docked) expect(leaf[across]).toBeGreaterThan(user[across]);
  });

  it.each(DIRECTIONS)("draws short straight lines between the borders, flowing %s", (direction) => {
    const scene = sceneOf(neuron(), direction);
    const [fx, fy] = flow(direction);
    const docked = new Set(dockedIn(scene).map(([, leaf]) => leaf.index));
    for (const { target, curve } of scene.edges) {
      if (!docked.has(target)) continue;
      const [dx, dy] = [curve[curve.length - 2] - curve[0], curve[curve.length - 1] - curve[1]];
      expect(dx * fx + dy * fy).toBeCloseTo(0);
      expect(Math.hypot(dx, dy)).toBeLessThan(60);
      for (let i = 2; i < curve.length; i += 2)
        expect((curve[i] - curve[0]) * dy).toBeCloseTo((curve[i + 1] - curve[1]) * dx);
    }
  });

  it("leaves the leaf that gets a gradient in the line where all operands are leaves", () => {
    const graph = graphOf((g) =>
      g.op("MulBackward0", [], { self: g.leaf("c", []), other: g.leaf("w", []) }),
    );
    const scene = sceneOf(withConstants(graph, "c"), "left");
    expect(dockedIn(scene).map(([, leaf]) => leaf.shape.texts[0].text)).toEqual(["c"]);
  });

  it("leaves what is used more than once, and what are too many, where they were", () => {
    const twice = graphOf((g) => {
      const x = g.leaf("x", []);
      return g.op("MulBackward0", [], { self: g.op("SinBackward0", [], { self: x }), other: x });
    });
    expect(dockedIn(sceneOf(twice, "left"))).toEqual([]);
    const many = graphOf((g) =>
      g.op(
        "AddBackward0",
        [],
        Object.fromEntries([..."abcd"].map((name) => [name, g.leaf(name, [])])),
      ),
    );
    expect(dockedIn(sceneOf(many, "left"))).toEqual([]);
  });

  it("uses both sides when two dock", () => {
    const scene = sceneOf(
      graphOf((g) => {
        const h = g.op("SinBackward0", [], { self: g.leaf("x", []) });
        return g.op("LerpBackward0", [], {
          self: h,
          end: g.leaf("e", []),
          weight: g.leaf("w", []),
        });
      }),
      "left",
    );
    const at = byTitle(scene);
    const middle = at.get("x")?.y ?? 0;
    expect(at.get("e")?.y).toBeGreaterThan(middle);
    expect(at.get("w")?.y).toBeLessThan(middle);
  });
});

it("docks a leaf at a sum between boxes, and not at another operation", () => {
  const sceneWith = (op: string, sign: string | null) => {
    const g = new Builder();
    const block = (path: string, input: number) => {
      g.namespace = path;
      const made = g.op("MmBackward0", [4, 4], { self: input, mat2: g.leaf(`${path}.w`, [4, 4]) });
      const active = g.op("TanhBackward0", [4, 4], { self: made });
      g.namespace = "";
      return active;
    };
    const shifted = { self: block("one", g.leaf("x", [4, 4])), other: g.leaf("position", [4, 4]) };
    const made = g.graph([block("two", g.op(op, [4, 4], shifted)), "y"]);
    const graph = {
      ...made,
      nodes: made.nodes.map((n) => ({ ...n, sign: n.op === op ? sign : null })),
    };
    const grouped = groupedGraph(graph);
    const folding = { ...firstFolding(grouped.tree), open: new Set<string>() };
    const scene = foldedScene(grouped, folding, "left", tableMeasure);
    const at = (is: (node: GraphModel["nodes"][number]) => boolean) =>
      scene.nodes.find(({ id, group }) => !group && is(graph.nodes[id])) as SceneNode;
    return [at((node) => node.op === op), at(({ name }) => name === "position")];
  };
  const [sum, position] = sceneWith("AddBackward0", "+");
  expect(position.x).toBe(sum.x);
  expect(position.y).not.toBe(sum.y);
  const [joined, beside] = sceneWith("CatBackward0", "cat");
  expect(beside.x).toBeLessThan(joined.x);
});
