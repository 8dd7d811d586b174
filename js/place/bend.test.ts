import { describe, expect, it } from "vitest";
import { bestDirection, firstScene } from "../arrange/first_view";
import { foldedScene } from "../arrange/pipeline";
import { transformer } from "../demo/deep_models";
import { firstFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { pointAt, portalEnds } from "../scene/curve";
import { overlap } from "../scene/grid";
import type { Placement } from "../scene/placement";
import type { Plan } from "../scene/plan";
import type { Scene, SceneEdge } from "../scene/scene";
import { fitView, LEGIBLE } from "../scene/views";
import { denseNet, uNet } from "../testing/u_net";
import { tableMeasure } from "../text/metrics";
import { bendLength, type Extents } from "./bend";

const WIDE = { width: 1370, height: 560, tallest: 760 };
const SMALL = { width: 770, height: 480, tallest: 760 };

const boxOf = ({ x, y, shape }: Scene["nodes"][number]) => ({
  left: x - shape.width / 2,
  right: x + shape.width / 2,
  top: y - shape.height / 2,
  bottom: y + shape.height / 2,
});

/** Pairs of a line and a node that is not one of its ends but under it. */
function covered(scene: Scene): string[] {
  return scene.edges.flatMap(({ source, target, curve }) =>
    scene.nodes.flatMap((node) => {
      if (node.index === source || node.index === target) return [];
      const { left, right, top, bottom } = boxOf(node);
      const isIn = Array.from({ length: 41 }, (_, i) => pointAt(curve, i / 40)).some(
        ([x, y]) => x > left + 1 && x < right - 1 && y > top + 1 && y < bottom - 1,
      );
      return isIn ? [`${source} ${target} over ${node.index}`] : [];
    }),
  );
}

const isUpright = ({ curve }: SceneEdge) =>
  curve.every((x, i) => i % 2 === 1 || Math.abs(x - curve[0]) < 1) &&
  Math.abs(curve[1] - curve[curve.length - 1]) > 20;

/** A narrow room, and that a picture in it is readable: in halves, without portals, and with nothing over anything. */
const TALL = { width: 770, height: 680, tallest: 860 };
function expectTallHalves(scene: Scene): void {
  expect(scene.inHalves).toBe(true);
  expect(scene.edges.filter(({ portal }) => portal !== undefined)).toEqual([]);
  expect(covered(scene)).toEqual([]);
  const { nodes } = scene;
  const pairs = nodes.flatMap((a, i) => nodes.slice(i + 1).map((b) => [a, b]));
  expect(pairs.filter(([a, b]) => overlap(boxOf(a), boxOf(b)))).toEqual([]);
  expect(fitView(scene, { ...TALL, height: TALL.tallest }).k).toBeGreaterThanOrEqual(LEGIBLE);
}

describe("a U-Net", () => {
  it.each([
    [4, WIDE],
    [6, { ...WIDE, width: 2000 }],
  ])("of %i levels has its second half below its first, mirrored", (levels, room) => {
    const scene = firstScene(uNet(levels), "left", tableMeasure, false, room);
    const skips = scene.edges.filter(isUpright);
    expect(skips.length).toBe(levels);
    for (const { source, target } of skips)
      expect(scene.nodes[source].y).toBeGreaterThan(scene.nodes[target].y);
    const loss = scene.nodes.find(({ root }) => root);
    expect(loss?.x).toBe(Math.min(...scene.nodes.map(({ x }) => x)));
    expect(covered(scene)).toEqual([]);
    const { nodes } = scene;
    const pairs = nodes.flatMap((a, i) => nodes.slice(i + 1).map((b) => [a, b]));
    expect(pairs.filter(([a, b]) => overlap(boxOf(a), boxOf(b)))).toEqual([]);
    expect(fitView(scene, room).k).toBeGreaterThanOrEqual(LEGIBLE);
  });

  it("has lines that end in a straight piece, for the arrowhead", () => {
    const { edges } = firstScene(uNet(4), "left", tableMeasure, false, WIDE);
    for (const { curve } of edges) {
      const [x0, y0, x1, y1] = curve.slice(-4);
      expect(Math.hypot(x1 - x0, y1 - y0)).toBeGreaterThan(1);
    }
  });

  it("keeps its halves when a box opens", () => {
    const grouped = groupedGraph(uNet(4));
    const closed = { ...firstFolding(grouped.tree), open: new Set<string>(), hidesPlumbing: true };
    const open = { ...closed, open: new Set(["downs/1"]) };
    const [, after] = [closed, open].map((folding) => {
      const scene = foldedScene(grouped, folding, "left", tableMeasure, { room: WIDE });
      expect(scene.edges.filter(isUpright).length).toBe(4);
      return scene;
    });
    expect(after.frames.map(({ path }) => path)).toEqual(["downs/1"]);
    expect(covered(after)).toEqual([]);
  });

  it("in a narrow room has its second half beside its first, and joins between them", () => {
    for (const levels of [4, 5]) {
      const graph = uNet(levels);
      expect(bestDirection(graph, TALL, tableMeasure)).toBe("up");
      const scene = firstScene(graph, "up", tableMeasure, false, TALL);
      expectTallHalves(scene);
      const { nodes } = scene;
      const joins = nodes.filter(({ id }) => graph.nodes[id].sign === "cat");
      expect(joins).toHaveLength(levels);
      for (const { x, y, index } of joins) {
        const lines = scene.edges.filter(({ source }) => source === index);
        const ends = lines.map(({ target }) => nodes[target]);
        if (!ends.every((end) => Math.abs(end.y - y) < 1)) continue;
        expect(ends.filter((end) => end.x < x)).toHaveLength(1);
      }
    }
  });

  it("of single layers has two of each half beside each other in a narrow room", () => {
    for (const levels of [2, 4]) {
      const graph = uNet(levels, "", true);
      const scene = firstScene(
        graph,
        bestDirection(graph, TALL, tableMeasure),
        tableMeasure,
        false,
        TALL,
      );
      expectTallHalves(scene);
      const { nodes } = scene;
      for (const { source, target, curve } of scene.edges) {
        expect(source).not.toBe(target);
        const ends = [curve.slice(0, 2), curve.slice(-2)];
        [source, target].forEach((v, i) => {
          const { left, right, top, bottom } = boxOf(nodes[v]);
          const [x, y] = ends[i];
          expect(x >= left - 2 && x <= right + 2 && y >= top - 2 && y <= bottom + 2).toBe(true);
        });
      }
      if (levels === 2) continue;
      const besides = scene.edges.filter(
        ({ source, target }) =>
          nodes[source].group && nodes[target].group && nodes[source].y === nodes[target].y,
      );
      expect(besides.length).toBeGreaterThanOrEqual(2 * levels);
    }
  });

  it("that is too long for that has portals instead of long lines", () => {
    const scene = firstScene(uNet(6), "left", tableMeasure, false, SMALL);
    const portals = scene.edges.filter(({ portal }) => portal !== undefined);
    expect(portals.length).toBeGreaterThan(2);
    expect(covered(scene)).toEqual([]);
    expect(fitView(scene, { ...SMALL, height: SMALL.tallest }).k).toBeGreaterThanOrEqual(LEGIBLE);
  });
});

it("knows how long halves are before they are laid out", () => {
  const none = new Float64Array(0);
  const placed = {
    x: new Float64Array(4),
    y: Float64Array.of(20, 80, 140, 200),
    owner: Int32Array.of(0, 1, 2, 3),
    boxes: { of: new Int32Array(4).fill(-1), left: none, top: none, width: none, height: none },
  } as unknown as Placement;
  const plan = { frames: [] } as unknown as Plan;
  const bend = { isLast: Uint8Array.of(1, 1, 0, 0), skips: [], others: [] };
  const sizes = { along: () => 40 } as unknown as Extents;
  const length = (beside: number[]) =>
    bendLength(placed, plan, bend, sizes, { gap: 10, beside: new Set(beside) });
  const turn = length([0, 1, 2, 3]);
  expect(length([]) - turn).toBe(100);
  expect(length([0]) - turn).toBe(100);
  expect(length([0, 2]) - turn).toBe(50);
});

it("draws more than two long lines as portals, with one sign per producer", () => {
  const scene = firstScene(denseNet(7), "left", tableMeasure, false, SMALL);
  const portals = scene.edges.filter(({ portal }) => portal !== undefined);
  expect(portals.length).toBeGreaterThan(2);
  const signs = new Map(portals.map(({ target, portal }) => [target, portal?.text]));
  for (const { target, portal } of portals) expect(portal?.text).toBe(signs.get(target));
  expect(new Set(signs.values()).size).toBe(signs.size);
  for (const { curve, source, target } of portals) {
    const [[x], [otherX]] = portalEnds(curve);
    expect(Math.abs(x - scene.nodes[source].x)).toBeLessThan(120);
    expect(Math.abs(otherX - scene.nodes[target].x)).toBeLessThan(120);
  }
});

it("leaves a picture without nested bypasses as it is", () => {
  const scene = firstScene(transformer(12), "left", tableMeasure, false, WIDE);
  expect(scene.edges.some(({ portal }) => portal !== undefined)).toBe(false);
  const loss = scene.nodes.find(({ root }) => root);
  expect(loss?.x).toBe(Math.max(...scene.nodes.map(({ x }) => x)));
});
