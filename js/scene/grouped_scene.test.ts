import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { DEEP_MODELS } from "../demo/deep_models";
import {
  closeGroup,
  type Folding,
  firstFolding,
  setPlumbing,
  setRepeats,
  toDepth,
} from "../fold/folding";
import { foldedPlan, groupedGraph } from "../fold/grouped_graph";
import { DIRECTIONS, type Direction, flow } from "../layout/direction";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { boxOf } from "./find";
import { overlap } from "./grid";
import type { Scene } from "./scene";

function sceneOf(
  graph: GraphModel,
  change: (folding: Folding, tree: ReturnType<typeof groupedGraph>["tree"]) => Folding = (f) => f,
  direction: Direction = "down",
  room?: { width: number; height: number },
): Scene {
  const grouped = groupedGraph(graph);
  const folding = change(firstFolding(grouped.tree), grouped.tree);
  return makeScene(graph, foldedPlan(grouped, folding), direction, estimate, {
    room,
  });
}

/** The defects of a picture, in sentences. */
function faults(scene: Scene, graph: GraphModel): string[] {
  const found: string[] = [];
  const boxes = scene.nodes.map(boxOf);
  boxes.forEach((box, i) => {
    for (let j = 0; j < i; j++) if (overlap(box, boxes[j])) found.push(`Nodes ${j}, ${i} overlap.`);
    if (
      box.left < -1 ||
      box.top < -1 ||
      box.right > scene.width + 1 ||
      box.bottom > scene.height + 1
    )
      found.push(`Node ${i} is outside.`);
  });
  const space = (id: number) => graph.nodes[id].namespace ?? "";
  for (const frame of scene.frames) {
    scene.nodes.forEach(({ id, group, copies, leaf }, i) => {
      if (leaf || copies > 1) return;
      const path = group ? group.paths[0] : space(id);
      const isInside = path.startsWith(`${frame.path}/`) || (!group && path === frame.path);
      const { left, top, right, bottom } = boxes[i];
      const within =
        left > frame.left && top > frame.top && right < frame.right && bottom < frame.bottom;
      if (isInside && !within) found.push(`Node ${i} is not in ${frame.path}.`);
      if (!isInside && overlap(boxes[i], frame)) found.push(`Node ${i} is in ${frame.path}.`);
    });
  }
  scene.edges.forEach(({ source, target, curve }, e) => {
    const near = (x: number, y: number, at: number) => {
      const { left, top, right, bottom } = boxes[at];
      const { outerWidth, outerHeight } = scene.nodes[at].shape;
      const [dx, dy] = [(outerWidth - right + left) / 2, (outerHeight - bottom + top) / 2];
      return x > left - dx - 1 && x < right + dx + 1 && y > top - dy - 1 && y < bottom + dy + 1;
    };
    if (!near(curve[0], curve[1], source)) found.push(`Edge ${e} does not start at its source.`);
    if (!near(curve[curve.length - 2], curve[curve.length - 1], target))
      found.push(`Edge ${e} does not end at its target.`);
  });
  return found;
}

const perceptron = DEEP_MODELS["perceptron, watched"]();
const transformer = DEEP_MODELS["transformer, 12 layers"]();

describe("a picture with groups", () => {
  it.each(DIRECTIONS)("has everything in its place, flowing %s", (direction) => {
    for (const depth of [0, 1, 9]) {
      const scene = sceneOf(perceptron, (f, tree) => toDepth(tree, f, depth), direction);
      expect(faults(scene, perceptron)).toEqual([]);
    }
    for (const room of [undefined, { width: 1200, height: 600 }]) {
      const scene = sceneOf(transformer, (f, tree) => toDepth(tree, f, 3), direction, room);
      expect(faults(scene, transformer)).toEqual([]);
    }
  });

  it("finds what is closed by any node in it", () => {
    const scene = sceneOf(perceptron, (f) => closeGroup(f, "net/0"));
    const box = scene.nodes.find(({ group }) => group?.paths[0] === "net/0");
    expect(box?.group?.members.length).toBeGreaterThan(2);
    for (const id of box?.group?.members ?? []) expect(scene.drawn[id]).toEqual([box?.index]);
    expect(box?.shape.texts.map(({ text }) => text)).toEqual([
      "net.0",
      `${box?.group?.members.length} nodes`,
    ]);
  });

  it("shows a closed output's flag on its box", () => {
    const g = new Builder();
    g.namespace = "net";
    const out = g.op("SumBackward0", [], { self: g.leaf("x", [2]) });
    const scene = sceneOf(g.graph([out, "loss"]), (f) => closeGroup(f, "net"));
    expect(scene.nodes[0].root).toBe(true);
    expect(scene.nodes[0].shape.texts.map(({ text }) => text)).toContain("loss");
  });

  it("draws lines between boxes that feed each other against the flow, and says so", () => {
    const g = new Builder();
    const step = (namespace: string, self: number) => {
      g.namespace = namespace;
      return g.op("SinBackward0", [], { self });
    };
    const graph = g.graph([step("a", step("b", step("a", g.leaf("x", [])))), "y"]);
    for (const direction of DIRECTIONS) {
      const scene = sceneOf(graph, (f, tree) => toDepth(tree, f, 0), direction);
      const [fx, fy] = flow(direction);
      const along = scene.edges.map(({ curve }) => {
        const end = curve.length;
        return Math.sign(fx * (curve[end - 2] - curve[0]) + fy * (curve[end - 1] - curve[1]));
      });
      expect(scene.edges.map(({ backward }) => backward)).toContain(true);
      expect(along).toEqual(scene.edges.map(({ backward }) => (backward ? -1 : 1)));
      expect(faults(scene, graph)).toEqual([]);
    }
  });

  it("says on an edge how many lines and how much plumbing it stands for", () => {
    const scene = sceneOf(transformer, (f, tree) => setPlumbing(toDepth(tree, f, 9), true));
    const folded = scene.edges.filter(({ merged }) => (merged?.folded.length ?? 0) > 0);
    expect(folded.length).toBeGreaterThan(100);
    for (const { merged } of folded) {
      const signs = merged?.signs.filter(({ kind }) => kind === "folded").map(({ text }) => text);
      expect(signs).toEqual([String(merged?.folded.length)]);
    }
    for (const { id } of scene.nodes) expect(transformer.nodes[id].op).not.toMatch(/^(View|T)Back/);
  });

  it("draws blocks that are alike as a strip, or one by one", () => {
    const bars = (folds: boolean) =>
      sceneOf(transformer, (f, tree) => setRepeats(toDepth(tree, f, 2), folds)).nodes.filter(
        ({ bar }) => bar,
      );
    expect(bars(true).map(({ shape }) => shape.texts[0].text)).toEqual(
      Array.from({ length: 12 }, (_, i) => `${i}`),
    );
    expect(bars(false)).toEqual([]);
  });

  it("accounts for every node and every edge of any graph", () => {
    const spaces = fc.array(fc.constantFrom(null, "", "a", "a/b", "c"), {
      minLength: 3,
      maxLength: 14,
    });
    const input = fc.record({ spaces, hides: fc.boolean(), depth: fc.nat(2), pick: fc.nat(99) });
    fc.assert(
      fc.property(input, ({ spaces, hides, depth, pick }) => {
        const g = new Builder();
        let [x, y] = [g.leaf("x", []), g.leaf("w", [])];
        spaces.forEach((space, i) => {
          g.namespace = space;
          const op = (pick + i) % 3 === 0 ? "ViewBackward0" : "MulBackward0";
          const made = g.op(op, [], op === "MulBackward0" ? { self: x, other: y } : { self: x });
          [x, y] = (pick * i) % 2 === 0 ? [made, y] : [made, x];
        });
        const graph = g.graph([x, "out"]);
        const scene = sceneOf(graph, (f, tree) => setPlumbing(toDepth(tree, f, depth), hides));
        expect(faults(scene, graph)).toEqual([]);
        const folded = scene.edges.flatMap(({ merged }) => merged?.folded ?? []);
        graph.nodes.forEach(({ id }) => {
          expect(scene.drawn[id].length > 0 || folded.includes(id)).toBe(true);
        });
        graph.edges.forEach((_, e) => {
          const at = scene.edgeOf?.[e] ?? -1;
          if (at >= 0) expect(scene.edges[at].merged?.edges).toContain(e);
          else {
            const [a, b] = [graph.edges[e].source, graph.edges[e].target];
            expect(scene.nodes[scene.drawn[a][0]].group?.members).toContain(b);
          }
        });
      }),
      { numRuns: 60 },
    );
  });
});
