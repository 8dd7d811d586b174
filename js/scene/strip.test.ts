import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openedBlock } from "../arrange/first_view";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { transformer } from "../demo/deep_models";
import { firstFolding, setPlumbing, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { DIRECTIONS } from "../layout/direction";
import { tableMeasure } from "../text/metrics";
import type { GraphModel } from "../wire";
import { boxOf } from "./find";
import { type Box, overlap } from "./grid";
import type { Scene } from "./scene";

/** Blocks in a row, each with one parameter. */
function row(count: number): GraphModel {
  const g = new Builder();
  g.namespace = "";
  let x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
  for (let i = 0; i < count; i++) {
    g.namespace = `net.blocks/${i}`;
    x = g.op("MulBackward0", [4], { self: x, other: g.leaf(`net.blocks.${i}.w`, [4]) });
    x = g.op("TanhBackward0", [4], { self: x });
  }
  g.namespace = "";
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

const directions = fc.constantFrom(...DIRECTIONS);
const rooms = fc.record({ width: fc.integer({ min: 400, max: 2000 }), height: fc.constant(600) });
const barsOf = ({ nodes }: Scene) => nodes.filter(({ bar }) => bar);

function stripScene(graph: GraphModel, depth: number, direction: Scene["direction"], room = ROOM) {
  const grouped = groupedGraph(graph);
  const folding = setPlumbing(toDepth(grouped.tree, firstFolding(grouped.tree), depth), true);
  return foldedScene(grouped, folding, direction, tableMeasure, { room });
}

const ROOM = { width: 1370, height: 600 };

/** The distance of a place from a box' border. */
function away(x: number, y: number, { left, top, right, bottom }: Box): number {
  const [dx, dy] = [Math.max(left - x, x - right), Math.max(top - y, y - bottom)];
  return Math.abs(Math.max(dx, dy));
}

describe("a strip", () => {
  it("has its bars side by side in its frame, in the order in which data flows", () => {
    fc.assert(
      fc.property(fc.integer({ min: 4, max: 60 }), directions, rooms, (count, direction, room) => {
        const scene = stripScene(row(count), 1, direction, room);
        const bars = barsOf(scene);
        expect(bars).toHaveLength(count);
        const frame = scene.frames.find(({ path }) => path === "net.blocks");
        for (const bar of bars) {
          const { left, top, right, bottom } = boxOf(bar);
          expect(left).toBeGreaterThanOrEqual(frame?.left ?? Number.NaN);
          expect(right).toBeLessThanOrEqual(frame?.right ?? Number.NaN);
          expect(top).toBeGreaterThanOrEqual(frame?.top ?? Number.NaN);
          expect(bottom).toBeLessThanOrEqual(frame?.bottom ?? Number.NaN);
        }
        const along = bars.map(({ x, y }) =>
          direction === "left" ? x : direction === "right" ? -x : direction === "up" ? y : -y,
        );
        expect(along).toEqual([...along].sort((a, b) => a - b));
        bars.slice(1).forEach((bar, i) => {
          expect(overlap(boxOf(bar), boxOf(bars[i]))).toBe(false);
        });
      }),
      { numRuns: 40 },
    );
  });

  it("is joined from bar to bar, and at both ends to what is around it", () => {
    for (const direction of DIRECTIONS) {
      const { nodes, edges, edgeOf } = stripScene(row(6), 1, direction);
      const blocks = edges.flatMap(({ source, target }) =>
        nodes[source].bar && nodes[target].bar
          ? [[nodes[source], nodes[target]].map(({ group }) => Number(group?.paths[0].at(-1)))]
          : [],
      );
      expect(blocks).toEqual([5, 4, 3, 2, 1].map((i) => [i, i - 1]));
      for (const edge of edges) {
        for (const [end, at] of [
          [edge.source, 0],
          [edge.target, edge.curve.length - 2],
        ]) {
          const { left, top, right, bottom } = boxOf(nodes[end]);
          expect(edge.curve[at]).toBeGreaterThanOrEqual(left - 0.01);
          expect(edge.curve[at]).toBeLessThanOrEqual(right + 0.01);
          expect(edge.curve[at + 1]).toBeGreaterThanOrEqual(top - 0.01);
          expect(edge.curve[at + 1]).toBeLessThanOrEqual(bottom + 0.01);
        }
        for (const e of edge.merged?.edges ?? []) expect(edgeOf?.[e]).toBe(edge.index);
      }
    }
  });

  it("has lines of several blocks end at its frame, and a line of one at its bar", () => {
    const g = new Builder();
    g.namespace = "";
    const memory = g.op("CosBackward0", [4], { self: g.leaf("memory", [4]) });
    const outputs: [string, number][] = [];
    let x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
    for (let i = 0; i < 6; i++) {
      g.namespace = `net.blocks/${i}`;
      x = g.op("MulBackward0", [4], { self: x, other: memory });
      x = g.op("AddBackward0", [4], { self: x, other: g.leaf(`net.blocks.${i}.w`, [4]) });
      outputs.push([`output${i}`, x]);
    }
    g.namespace = "";
    const all = g.op("MixBackward", [4], Object.fromEntries(outputs));
    const graph = g.graph([all, "loss"]);
    for (const direction of DIRECTIONS) {
      const { nodes, edges, frames } = stripScene(graph, 1, direction);
      const frame = frames.find(({ path }) => path === "net.blocks");
      if (!frame) throw new Error("The strip has no frame.");
      /** Per node beside the strip, whether its line ends at the frame, and at a bar, and its number of bars. */
      const ends = edges.flatMap(({ source, target, bars, curve }) => {
        const [from, to] = [nodes[source], nodes[target]];
        if (!from.bar === !to.bar) return [];
        const [bar, other] = from.bar ? [from, to] : [to, from];
        const [x, y] = from.bar ? curve : curve.slice(-2);
        const isAt = (box: Box) => away(x, y, box) < 0.01;
        return [[graph.nodes[other.id].op, isAt(frame), isAt(boxOf(bar)), bars?.length]];
      });
      expect(ends.sort()).toEqual([
        ["CosBackward0", true, false, 6],
        ["MixBackward", true, false, 6],
        ["SinBackward0", false, true, 1],
      ]);
    }
  });

  it("fits the window with any number of bars", () => {
    for (const count of [4, 40, 400, 10_000]) {
      const scene = stripScene(row(count), 1, "left");
      expect(barsOf(scene)).toHaveLength(count);
      const frame = scene.frames.find(({ path }) => path === "net.blocks");
      expect((frame?.right ?? Number.NaN) - (frame?.left ?? 0)).toBeLessThan(ROOM.width);
      const named = barsOf(scene).filter(({ shape }) => shape.texts.length > 0);
      expect(named.length).toBeGreaterThan(0);
      expect(named.length).toBeLessThanOrEqual(60);
    }
  });
});

describe("a strip's head", () => {
  /** Blocks with a long class. */
  const classed = (count: number): GraphModel => {
    const graph = row(count);
    const namespaces = Array.from({ length: count }, (_, i) => `net.blocks/${i}`);
    const classes = namespaces.map(() => 0);
    return { ...graph, modules: { ...graph.modules, namespaces, classes, names: [KIND] } };
  };
  const KIND = "MixtralDecoderLayer";
  const headIn = (count: number, width: number) => {
    const scene = stripScene(classed(count), 1, "left", { width, height: 600 });
    return scene.frames.find(({ path }) => path === "net.blocks");
  };

  it("has room for the whole class, also over few bars", () => {
    for (const width of [1370, 736])
      for (const count of [4, 12])
        expect(headIn(count, width)?.facts.map(({ text }) => text)).toContain(KIND);
    expect(headIn(4, 1370)?.facts.map(({ text }) => text)).toEqual(["×4", KIND, "4 each"]);
    // The size goes first.
    expect(headIn(4, 736)?.facts.map(({ text }) => text)).toEqual(["×4", KIND]);
  });

  it("keeps the last words of a class that does not fit", () => {
    expect(headIn(4, 470)?.facts.map(({ text }) => text)).toContain("…DecoderLayer");
  });

  it("leaves room for the numbers above the bars, below the head", () => {
    for (const width of [1370, 736]) {
      const scene = stripScene(row(12), 1, "left", { width, height: 600 });
      const frame = scene.frames.find(({ path }) => path === "net.blocks");
      for (const { bar, y, shape } of barsOf(scene)) {
        expect(bar?.above).toBe("middle");
        // A line for the head, and one for the numbers.
        const room = y - shape.height / 2 - (frame?.top ?? Number.NaN);
        expect(room).toBeGreaterThan(36);
        // Below the bars only their indices.
        expect((frame?.bottom ?? Number.NaN) - y - shape.height / 2).toBeLessThan(28);
      }
    }
    const many = barsOf(stripScene(row(50), 1, "left", { width: 736, height: 600 }));
    expect([many[0], many[1], many[49]].map(({ bar }) => bar?.above)).toEqual([
      ...["start", "middle", "end"],
    ]);
  });
});

describe("an open block", () => {
  const graph = transformer(6);
  const grouped = groupedGraph(graph);
  const closed = toDepth(grouped.tree, firstFolding(grouped.tree), 2);

  it("is between the bars of the other blocks, with its content inside", () => {
    for (const direction of DIRECTIONS) {
      for (const block of [0, 3, 5]) {
        const path = `encoder/layers/${block}`;
        const folding = openedBlock(grouped, closed, path, {
          direction,
          measure: tableMeasure,
          room: ROOM,
        });
        if (!folding) throw new Error(`${path} is in no strip.`);
        const scene = foldedScene(grouped, folding, direction, tableMeasure, { room: ROOM });
        const frame = scene.frames.find((one) => one.path === path);
        if (!frame) throw new Error(`${path} has no frame.`);
        const others = scene.nodes.flatMap(({ group }) =>
          (group?.paths ?? []).filter((one) => /^encoder\/layers\/\d$/.test(one)),
        );
        expect(new Set(others).size).toBe(5);
        scene.nodes.forEach((node, i) => {
          expect(node.index).toBe(i);
          const isInside = graph.nodes[node.id].namespace?.startsWith(path) ?? false;
          expect(overlap(boxOf(node), frame)).toBe(isInside);
        });
        for (const [i, edge] of scene.edges.entries()) expect(edge.index).toBe(i);
      }
    }
  });
});
