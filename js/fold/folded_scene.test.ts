import { describe, expect, it } from "vitest";
import { chain, perceptron, transformer } from "../demo/deep_models";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { canFold, foldedScene } from "./folded_scene";
import { closeGroup, firstFolding, LARGEST_WHOLE, toDepth } from "./folding";
import { groupedGraph } from "./grouped_graph";

const pictureOf = (graph: GraphModel, options: { wraps?: boolean } = {}) => {
  const grouped = groupedGraph(graph);
  return foldedScene(grouped, firstFolding(grouped.tree), "down", estimate, options);
};
const length = ({ width, height }: { width: number; height: number }) =>
  Math.max(width / height, height / width);

describe("foldedScene", () => {
  it("wraps a long chain into columns that fill a window", () => {
    const { scene, wraps } = pictureOf(chain(2000));
    expect(wraps).toBe(true);
    expect(length(scene)).toBeLessThan(3);
    const columns = new Set(scene.nodes.map(({ x }) => Math.round(x)));
    expect(columns.size).toBeGreaterThan(20);
    expect(columns.size).toBeLessThan(200);
  });

  it("leaves a small graph as it comes, however long", () => {
    const { scene, wraps } = pictureOf(chain(LARGEST_WHOLE - 10));
    expect(wraps).toBe(false);
    expect(length(scene)).toBeGreaterThan(20);
  });

  it("keeps columns once there are some", () => {
    const grouped = groupedGraph(transformer(48));
    const { tree } = grouped;
    const open = toDepth(tree, firstFolding(tree), 2);
    const before = foldedScene(grouped, open, "down", estimate);
    expect(before.wraps).toBe(true);
    const closed = closeGroup(open, "encoder/layers");
    expect(foldedScene(grouped, closed, "down", estimate, before).wraps).toBe(true);
    expect(foldedScene(grouped, closed, "down", estimate).wraps).toBe(false);
  });
});

describe("canFold", () => {
  it("is so for modules of any number, and for many nodes", () => {
    expect(canFold(groupedGraph(perceptron()))).toBe(true);
    expect(canFold(groupedGraph(chain(LARGEST_WHOLE)))).toBe(true);
    expect(canFold(groupedGraph(chain(LARGEST_WHOLE - 10)))).toBe(false);
  });
});
