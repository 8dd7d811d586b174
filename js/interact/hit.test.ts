// @vitest-environment jsdom
import { expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { DEEP_MODELS } from "../demo/deep_models";
import { firstFolding, setPlumbing, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { headBox, headsIn } from "../paint/frame_layer";
import { overlap } from "../scene/grid";
import type { Scene } from "../scene/scene";
import { estimate } from "../text/measure";
import { hitAt, paintedAt } from "./hit";

const EVERYWHERE = { left: -1e6, top: -1e6, right: 1e6, bottom: 1e6 };
const grouped = groupedGraph(DEEP_MODELS["transformer, 12 layers"]());

function sceneAt(depth: number): Scene {
  const folding = toDepth(grouped.tree, firstFolding(grouped.tree), depth);
  return foldedScene(grouped, setPlumbing(folding, true), "down", estimate);
}

it("finds every node by its place", () => {
  const scene = sceneAt(9);
  for (const node of scene.nodes) expect(paintedAt(scene, [], node.x, node.y, 0.3).node).toBe(node);
});

it("finds the signs on closed boxes, which take one click", () => {
  const scene = sceneAt(3);
  const boxes = scene.nodes.filter(({ group }) => group);
  expect(boxes.length).toBeGreaterThan(3);
  for (const { x, y, shape, index } of boxes) {
    const hit = paintedAt(scene, [], x - shape.width / 2 + 2, y - shape.height / 2 + 2, 1);
    expect([hit.node?.index, hit.isSign]).toEqual([index, true]);
    expect(paintedAt(scene, [], x, y, 1).isSign).toBe(false);
  }
});

it("finds the signs of folded plumbing", () => {
  const scene = sceneAt(9);
  const signs = scene.edges.flatMap((edge) =>
    (edge.merged?.signs ?? [])
      .filter(({ kind }) => kind === "folded")
      .map((sign) => ({ edge, sign })),
  );
  expect(signs.length).toBeGreaterThan(20);
  for (const { edge, sign } of signs) {
    const hit = paintedAt(scene, [], sign.x, sign.y, 4);
    expect(hit.folded).toBe(edge);
  }
});

it("finds the heads of open groups, by their signs with one click", () => {
  const scene = sceneAt(9);
  for (const scale of [1, 0.5, 0.3, 0.1]) {
    const heads = headsIn(scene, EVERYWHERE, scale);
    expect(heads.length).toBeGreaterThan(scale < 0.2 ? 0 : 1); // titles that would lie on others go
    for (const head of heads) {
      const { left, top, right, bottom } = headBox(head, scale);
      const sign = paintedAt(scene, heads, left + 2, top + 2, scale);
      expect([sign.frame, sign.isSign]).toEqual([head.path, true]);
      const title = paintedAt(scene, heads, right - 1, (top + bottom) / 2, scale);
      expect([title.frame, title.isSign]).toEqual([head.path, false]);
    }
  }
});

it("lets no title lie on another, however far away", () => {
  const scene = sceneAt(9);
  for (const scale of [0.7, 0.5, 0.3, 0.2, 0.1, 0.05]) {
    const boxes = headsIn(scene, EVERYWHERE, scale).map((head) => headBox(head, scale));
    boxes.forEach((box, i) => {
      for (const other of boxes.slice(0, i)) expect(overlap(box, other)).toBe(false);
    });
  }
});

it("asks elements where there are such", () => {
  const scene = sceneAt(9);
  const ground = document.createElement("div");
  const [{ x, y }] = scene.nodes;
  expect(hitAt(scene, ground, [x, y], 1, null).node).toBeNull();
  expect(hitAt(scene, ground, [x, y], 1, []).node).toBe(scene.nodes[0]);
  const group = document.createElement("div");
  group.className = "gw-node";
  group.dataset.index = "3";
  expect(hitAt(scene, group, [-9, -9], 1, []).node).toBe(scene.nodes[3]);
});
