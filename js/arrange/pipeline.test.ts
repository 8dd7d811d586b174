import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { chain, perceptron } from "../demo/deep_models";
import { firstFolding, LARGEST_WHOLE } from "../fold/folding";
import { canFold, groupedGraph } from "../fold/grouped_graph";
import { fitView, LEGIBLE } from "../scene/views";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { foldedScene } from "./pipeline";

/** A graph whose operations have signs, "exp", as they have from torch. */
const signed = (graph: GraphModel): GraphModel => ({
  ...graph,
  nodes: graph.nodes.map((node) =>
    node.kind === "op"
      ? { ...node, sign: node.op === "MulBackward0" ? "×" : node.op.slice(0, -9).toLowerCase() }
      : node,
  ),
});

const chainIn = (length: number, room: { width: number; height: number }) => {
  const grouped = groupedGraph(signed(chain(length)));
  return foldedScene(grouped, firstFolding(grouped.tree), "left", estimate, { room });
};

describe("foldedScene", () => {
  it("wraps what is longer than the window like text, whatever its length", () => {
    for (const room of [
      { width: 1370, height: 560 },
      { width: 770, height: 480 },
    ]) {
      for (const length of [40, 300, 2000]) {
        const scene = chainIn(length, room);
        const { k } = fitView(scene, room);
        const filled = (k * k * scene.width * scene.height) / (room.width * room.height);
        expect(filled).toBeGreaterThan(0.4);
      }
    }
  });

  it("leaves what is no longer in one line, data at its left", () => {
    const { nodes } = chainIn(8, { width: 2000, height: 560 });
    expect(new Set(nodes.map(({ y }) => y)).size).toBe(1);
    expect(nodes.find(({ leaf }) => leaf)?.x).toBe(Math.min(...nodes.map(({ x }) => x)));
  });

  it("leads the lines between its rows to the signs and the cards", () => {
    const { nodes, edges } = chainIn(20, { width: 1000, height: 560 });
    expect(new Set(nodes.map(({ y }) => y)).size).toBeGreaterThan(1);
    for (const { source, target, curve } of edges) {
      const { sign } = nodes[source].shape.card ?? {};
      const start = nodes[source].x + (sign ? sign.x - sign.width / 2 : Number.NaN);
      const end = nodes[target].x + nodes[target].shape.width / 2;
      expect([curve[0], curve[curve.length - 2]]).toEqual([start, end]);
    }
  });

  it("reads from the first line to the last, as the data flows", () => {
    const { nodes } = chainIn(300, { width: 1370, height: 560 });
    const y = (pick: (node: (typeof nodes)[number]) => boolean) =>
      nodes.find(pick)?.y ?? Number.NaN;
    expect(y(({ leaf }) => leaf)).toBeLessThan(y(({ root }) => root));
  });
});

describe("canFold", () => {
  it("is so for modules of any number, and for many nodes", () => {
    expect(canFold(groupedGraph(perceptron()))).toBe(true);
    expect(canFold(groupedGraph(chain(LARGEST_WHOLE)))).toBe(true);
    expect(canFold(groupedGraph(chain(LARGEST_WHOLE - 10)))).toBe(false);
  });
});

describe("cards of vectors", () => {
  /** The widths of cards of operations on vectors in a row, and the scale at which all are seen. */
  const vectorsIn = (size: number, count: number, width: number) => {
    const g = new Builder();
    let x = g.leaf("x", [size]);
    for (let i = 0; i < count; i++) x = g.op("ExpBackward0", [size], { self: x });
    const grouped = groupedGraph(signed(g.graph([g.op("SumBackward0", [], { self: x }), "loss"])));
    const room = { width, height: 480 };
    const scene = foldedScene(grouped, firstFolding(grouped.tree), "left", estimate, { room });
    const widths = scene.nodes.filter(({ root }) => !root).map(({ shape }) => shape.width);
    const rows = new Set(scene.nodes.map(({ y }) => y)).size;
    return { least: Math.min(...widths), k: fitView(scene, room).k, rows };
  };
  const list = (size: number) =>
    estimate(`[${Array.from({ length: size }, () => "\u22120.24").join(", ")}]`, "digits");

  it("have room for a list of two or three gradients where the picture stays legible", () => {
    for (const size of [2, 3]) expect(vectorsIn(size, 9, 2600).least).toBeGreaterThan(list(size));
    const { least, k, rows } = vectorsIn(3, 9, 1700);
    expect(least).toBeLessThan(list(3));
    expect(k).toBeGreaterThan(LEGIBLE);
    expect(rows).toBe(1);
  });

  it("stay as they are for other shapes", () => {
    expect(vectorsIn(4, 9, 2400).least).toBe(vectorsIn(1, 9, 2400).least);
  });
});
