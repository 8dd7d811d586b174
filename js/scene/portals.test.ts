import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { firstFolding, wholeFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { foldedScene } from "../pipeline";
import { translator } from "../testing/translator";
import { tableMeasure } from "../text/metrics";
import { hasRails } from "./portals";
import { fitView, LEGIBLE } from "./views";

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
    expect(fitView(scene, WIDE).k).toBeGreaterThanOrEqual(LEGIBLE);
    const leaves = scene.nodes.filter(({ leaf }) => leaf);
    expect(leaves.length).toBe(5 + 6);
    for (const { shape } of leaves) expect(shape.card).toBeDefined();
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
