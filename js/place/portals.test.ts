import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { firstFolding, wholeFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import type { Placement } from "../scene/placement";
import type { Sized } from "../scene/sizes";
import { fitView, LEGIBLE, tallRoom } from "../scene/views";
import { translator } from "../testing/translator";
import { uNet } from "../testing/u_net";
import { tableMeasure } from "../text/metrics";
import type { GraphModel } from "../wire";
import { hasRails, liftable, longLines } from "./portals";

const WIDE = { width: 1366, height: 600, tallest: 860 };
const NARROW = { width: 766, height: 600, tallest: 860 };

describe("long lines", () => {
  it.each([WIDE, NARROW])(
    "of a shared table are portals, the way of the data is not, $width px",
    (room) => {
      const grouped = groupedGraph(translator(6));
      const open = new Set(["encoder", "encoder/block", "decoder", "decoder/block"]);
      const folding = { ...firstFolding(grouped.tree), open, hidesPlumbing: true };
      const { nodes, edges } = foldedScene(grouped, folding, "left", tableMeasure, { room });
      const portals = edges.filter(({ portal }) => portal !== undefined);
      expect(portals.length).toBeGreaterThan(0);
      for (const { target } of portals) expect(nodes[target].leaf).toBe(true);
      // One use keeps its line.
      const lines = edges.filter(
        ({ target, portal }) => nodes[target].leaf && portal === undefined,
      );
      expect(lines.length).toBe(1);
    },
  );
});

/** Blocks in a row between a table and a head with the table's weight; each block also takes the same embeddings. */
function row(
  blocks: number,
  { isTied = false, isTimed = false, name = "time", also = [] as string[], first = "block_a" },
): GraphModel {
  const g = new Builder();
  const shape = [2, 8];
  const layer = (path: string, input: number | null, weight = g.leaf(`${path}.weight`, [8, 8])) => {
    g.namespace = path;
    const made = g.op("MmBackward0", shape, { self: input, mat2: weight });
    const active = g.op("TanhBackward0", shape, { self: made });
    g.namespace = "";
    return active;
  };
  const table = g.leaf("table.weight", [8, 8]);
  const times = isTimed ? [name, ...also].map((path) => layer(path, layer(path, null))) : [];
  let x = layer("table", null, table);
  for (let i = 0; i < blocks; i++) {
    const path = i === 0 ? first : `block_${"abcdefghijkl"[i]}`;
    x = layer(path, x);
    g.namespace = path;
    for (const time of times) x = g.op("AddBackward0", shape, { self: x, other: time });
  }
  const head = isTied ? layer("head", x, table) : layer("head", x);
  g.namespace = "";
  return g.graph([g.op("MeanBackward0", [], { self: head }, "loss"), "loss"]);
}

describe("portals of one producer", () => {
  const portalsIn = (graph: GraphModel, room: typeof WIDE, open: readonly string[] = []) => {
    const { nodes, edges } = foldedScene(
      groupedGraph(graph),
      { ...firstFolding(groupedGraph(graph).tree), open: new Set(open), hidesPlumbing: true },
      "left",
      tableMeasure,
      { room },
    );
    const toOne = (target: number) => edges.filter((edge) => edge.target === target);
    const portals = edges.filter(({ portal }) => portal !== undefined);
    return { nodes, portals, toOne };
  };

  it.each([WIDE, NARROW])(
    "with many users have its name at all but the first, $width px",
    (room) => {
      const { nodes, portals, toOne } = portalsIn(row(12, { isTimed: true }), room);
      expect(portals.map(({ portal }) => portal?.text)).toEqual(Array(11).fill("time"));
      expect(portals.filter(({ portal }) => !portal?.isKnown).length).toBe(1);
      const [{ target }] = portals;
      const lines = toOne(target).filter(({ portal }) => portal === undefined);
      expect(lines.length).toBe(1);
      const furthest = Math.max(...portals.map(({ source }) => nodes[source].rank));
      expect(nodes[lines[0].source].rank).toBeGreaterThan(furthest);
    },
  );

  it("with few users and short lines are not needed", () => {
    expect(portalsIn(row(2, { isTimed: true }), WIDE).portals).toEqual([]);
  });

  it("name a weight that a far module shares, even once", () => {
    const { portals, toOne } = portalsIn(row(8, { isTied: true }), WIDE);
    expect(portals.map(({ portal }) => portal?.text)).toEqual(["table.weight"]);
    expect(toOne(portals[0].target).length).toBe(2);
    expect(portalsIn(row(1, { isTied: true }), WIDE).portals).toEqual([]);
  });

  it.each([
    [2, ["text", "time"]],
    [3, ["1", "2", "3"]],
  ])("of %i at each box are %j", (count, signs) => {
    const also = ["text", "noise"].slice(0, count - 1);
    const { portals } = portalsIn(row(12, { isTimed: true, also }), WIDE);
    expect([...new Set(portals.map(({ portal }) => portal?.text))].sort()).toEqual(signs);
  });

  it.each([
    ["is long", { name: "time_of_the_whole_signal" }],
    ["is a number", { name: "0" }],
  ])("are numbered where the name %s", (_, names) => {
    const { portals } = portalsIn(row(12, { isTimed: true, ...names }), WIDE);
    expect(new Set(portals.map(({ portal }) => portal?.text))).toEqual(new Set(["1"]));
  });

  it.each([
    ["belongs to another box too", { name: "a/time", first: "b/time" }, ["a", "b"]],
    ["belongs to an open box too", { name: "a/time", first: "time/in" }, ["a", "time"]],
  ])("have more of a name whose end %s", (_, names, open) => {
    const { portals } = portalsIn(row(12, { isTimed: true, ...names }), WIDE, open);
    expect(new Set(portals.map(({ portal }) => portal?.text))).toEqual(new Set(["a.time"]));
  });

  it("have only the end of a parameter's long name", () => {
    const graph = row(8, { isTied: true });
    const nodes = graph.nodes.map((node) =>
      node.name === "table.weight" ? { ...node, name: "model.of_words.table.weight" } : node,
    );
    const { portals } = portalsIn({ ...graph, nodes }, WIDE);
    expect(portals.map(({ portal }) => portal?.text)).toEqual(["table.weight"]);
  });
});

it.each([5, 6, 7])("all bypasses of a U-Net of %i levels are portals if most are", (levels) => {
  const graph = uNet(levels);
  const grouped = groupedGraph(graph);
  const open = new Set(["downs", "ups", "convs"]);
  const folding = { ...firstFolding(grouped.tree), open, hidesPlumbing: true };
  const { nodes, edges } = foldedScene(grouped, folding, "left", tableMeasure, { room: NARROW });
  const users = edges.flatMap(({ portal, source }) => (portal ? [nodes[source]] : []));
  const cats = nodes.filter(({ id, group }) => !group && graph.nodes[id].op === "CatBackward0");
  expect(new Set(users)).toEqual(new Set(cats));
  expect(users.length).toBe(levels);
});

describe("a loop with shared leaves", () => {
  const loop = (steps: number) => {
    const g = new Builder();
    const [w, u] = [g.leaf("w", []), g.leaf("u", [])];
    let h = g.op("MulBackward0", [], { self: u });
    for (let i = 0; i < steps; i++) {
      const [a, b] = [w, u].map((leaf, k) =>
        g.op("MulBackward0", [], k === 0 ? { self: leaf, other: h } : { self: leaf }),
      );
      h = g.op("TanhBackward0", [], { self: g.op("AddBackward0", [], { self: a, other: b }) });
    }
    return g.graph([h, "h"]);
  };

  it("has them beside each use instead of lines side by side", () => {
    const grouped = groupedGraph(loop(5));
    const scene = foldedScene(grouped, wholeFolding(grouped.tree), "left", tableMeasure, {
      room: WIDE,
    });
    expect(hasRails(scene, WIDE)).toBe(false);
    expect(fitView(scene, tallRoom(WIDE)).k).toBeGreaterThanOrEqual(LEGIBLE);
    const leaves = scene.nodes.filter(({ leaf }) => leaf);
    expect(leaves.length).toBe(5 + 6);
    for (const { shape } of scene.nodes) expect(shape.card).toBeDefined();
    const once = foldedScene(grouped, wholeFolding(grouped.tree), "left", tableMeasure, {
      room: WIDE,
      cards: "near",
    });
    expect(hasRails(once, WIDE)).toBe(true);
  });

  it("has one of each where their lines are short", () => {
    const grouped = groupedGraph(loop(2));
    const scene = foldedScene(grouped, wholeFolding(grouped.tree), "left", tableMeasure, {
      room: WIDE,
    });
    expect(scene.nodes.filter(({ leaf }) => leaf).length).toBe(2);
  });
});

describe("lines of a weight", () => {
  /** Two operations in a row, which use leaves. */
  const using = (...leaves: number[][]) => {
    const pairs = [[0, 1], ...leaves.flatMap((users, i) => users.map((user) => [user, 2 + i]))];
    const edges = pairs.map(([source, target], e) => ({ source, target, edges: [e] }));
    const nodes = [0, 1, ...leaves.map((_, i) => 2 + i)].map((id) => ({ id, group: null }));
    const kinds = nodes.map(({ id }) => ({ kind: id < 2 ? "op" : "leaf", op: "Tanh" }));
    const graph = { nodes: kinds, edges };
    return { graph, plan: { nodes, edges }, times: nodes.map(() => 1) } as unknown as Sized;
  };

  it("may all be portals if it is shared, and none otherwise", () => {
    expect(liftable(using([0, 1]), [1, 2]).sort()).toEqual([1, 2]);
    expect(liftable(using([1]), [1])).toEqual([]);
  });

  it("are portals where they turn back, if another one is", () => {
    const portalsOf = (ends: number[], portals: number[]) => {
      const route = () => ends.map((along): [number, number] => [0, along]);
      return [...longLines({ route } as unknown as Placement, using([0, 1]), 600, portals)].sort();
    };
    const [turned, ahead] = [
      [0, 40, -20, 60],
      [0, 40, 60],
    ];
    expect(portalsOf(turned, [1])).toEqual([1, 2]);
    expect(portalsOf(ahead, [1])).toEqual([1]);
    expect(portalsOf(turned, [])).toEqual([]);
  });
});

describe("long lines of a chain", () => {
  /** Which lines of eight operations in a row, with skips over one of them each, are portals; all are long. */
  const portalsOf = (skips: readonly number[]) => {
    const ids = Array.from({ length: 8 }, (_, v) => v);
    const pairs = [...ids.slice(1).map((v) => [v - 1, v]), ...skips.map((v) => [v, v + 2])];
    const edges = pairs.map(([source, target], e) => ({ source, target, edges: [e] }));
    const graph = { nodes: ids.map(() => ({ kind: "op", op: "Tanh" })), edges };
    const nodes = ids.map((id) => ({ id, group: null }));
    const sized = { graph, plan: { nodes, edges }, times: ids.map(() => 1) } as unknown as Sized;
    const route = (): [number, number][] => [
      [0, 0],
      [0, 900],
    ];
    return [...longLines({ route } as unknown as Placement, sized, 600, [])];
  };

  it("are portals if more than two of them have another way; the others do not count", () => {
    expect(portalsOf([])).toEqual([]);
    expect(portalsOf([0, 3])).toEqual([]);
    expect(portalsOf([0, 2, 4]).sort()).toEqual([7, 8, 9]);
  });
});
