import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { perceptron, resnet, transformer } from "../demo/deep_models";
import { MODELS } from "../demo/models";
import { groupedGraph } from "../fold/grouped_graph";
import { overlap } from "../scene/grid";
import type { Scene } from "../scene/scene";
import { firstView, type Room } from "../scene/views";
import { residualNet } from "../testing/residual";
import { translator } from "../testing/translator";
import { FONTS } from "../text/measure";
import { tableMeasure } from "../text/metrics";
import type { GraphModel } from "../wire";
import { bestDirection, firstScene } from "./first_view";

const DEEP = {
  perceptron,
  "ResNet-18": () => resnet([2, 2, 2, 2]),
  "ResNet-50": () => resnet([3, 4, 6, 3]),
  "ResNet-152": () => resnet([3, 8, 36, 3]),
  "transformer of 2": () => transformer(2),
  "transformer of 12": () => transformer(12),
  "transformer of 160": () => transformer(160),
};
const ROOMS = [
  { width: 1370, height: 560, board: 0.75 },
  { width: 770, height: 480, board: 0.55 },
];

const sceneIn = (graph: GraphModel, room: (typeof ROOMS)[number]) =>
  firstScene(graph, bestDirection(graph, room, tableMeasure), tableMeasure, false, room);

/** The share of nodes that the first view shows. */
function shareShown(
  { nodes }: Scene,
  view: ReturnType<typeof firstView>,
  room: { width: number; height: number },
) {
  const inside = nodes.filter(({ x, y, shape }) => {
    const [half, high] = [(view.k * shape.width) / 2, (view.k * shape.height) / 2];
    const [sx, sy] = [view.k * x + view.x, view.k * y + view.y];
    return sx - half >= 0 && sx + half <= room.width && sy - high >= 0 && sy + high <= room.height;
  });
  return inside.length / nodes.length;
}

describe("the first view", () => {
  for (const room of ROOMS) {
    it.each(Object.entries(DEEP))(
      `of a model shows all of it, legibly: %s, ${room.width} px`,
      (_, make) => {
        const scene = sceneIn(make(), room);
        const view = firstView(scene, room);
        expect(shareShown(scene, view, room)).toBe(1);
        const isBoard = !scene.nodes.some(({ group }) => group);
        const least = isBoard ? room.board * FONTS.title.size : 11;
        expect(view.k * FONTS.title.size).toBeGreaterThanOrEqual(least);
      },
    );

    it.each(Object.entries(DEEP))(`has no title on a node: %s, ${room.width} px`, (_, make) => {
      const { frames, nodes } = sceneIn(make(), room);
      for (const { left, right, top } of frames) {
        const head = { left, right, top, bottom: top + 22 };
        for (const { x, y, shape } of nodes) {
          const [half, high] = [shape.width / 2, shape.height / 2];
          const box = { left: x - half, right: x + half, top: y - high, bottom: y + high };
          expect(overlap(head, box)).toBe(false);
        }
      }
    });

    it.each(Object.entries(MODELS).filter(([, make]) => make().nodes.length <= 30))(
      `of a small graph shows all of it, large: %s, ${room.width} px`,
      (_, make) => {
        const scene = sceneIn(make(), room);
        const view = firstView(scene, room);
        expect(shareShown(scene, view, room)).toBe(1);
        expect(view.k).toBeGreaterThanOrEqual(room.board);
      },
    );
  }

  it("draws four blocks or more that are alike as a strip, within the window however many they are", () => {
    for (const room of ROOMS) {
      for (const layers of [1, 3, 4, 12, 24, 160]) {
        const scene = sceneIn(transformer(layers), room);
        const bars = scene.nodes.filter(({ bar }) => bar);
        // In a picture of few items one of them is open.
        const opened = scene.frames.filter(({ path }) => /layers\/\d+$/.test(path));
        if (layers < 4) expect(bars).toEqual([]);
        else
          expect([bars.length, opened.length]).toEqual(
            layers === 4 && opened.length === 1 ? [3, 1] : [layers, 0],
          );
        expect(shareShown(scene, firstView(scene, room), room)).toBe(1);
      }
      expect(sceneIn(resnet([2, 2, 2, 2]), room).nodes.some(({ bar }) => bar)).toBe(false);
    }
  });

  it("opens boxes of one class together where it shows more than a handful of things", () => {
    for (const make of Object.values(DEEP)) {
      const graph = make();
      const { tree, kind, runs } = groupedGraph(graph);
      const blocks = new Set(runs.flat().map((g) => tree.path[g]));
      for (const room of ROOMS) {
        const { nodes, frames } = sceneIn(graph, room);
        if (nodes.length < 12) continue;
        const classOf = (path: string) => kind[tree.byPath.get(path) ?? 0];
        const open = new Set(frames.map(({ path }) => classOf(path)));
        const closed = nodes.flatMap(({ group }) => group?.paths ?? []);
        const isOpened = (path: string) => !blocks.has(path) && classOf(path) !== null;
        expect(closed.filter((path) => isOpened(path) && open.has(classOf(path)))).toEqual([]);
      }
    }
  });

  it("shows the blocks of a ResNet-18 in a wide window, and no frame around one thing alone", () => {
    const { nodes, frames } = sceneIn(resnet([2, 2, 2, 2]), ROOMS[0]);
    expect(nodes.filter(({ group }) => group).length).toBeGreaterThan(12);
    for (const { left, right, top, bottom } of frames) {
      const inside = nodes.filter(({ x, y }) => x > left && x < right && y > top && y < bottom);
      expect(inside.length).toBeGreaterThan(1);
    }
  });

  it("shows far more where only a little height is missing and the picture may be taller", () => {
    const blocks = [
      "identity",
      "downsample",
      "identity",
      "view",
      "identity",
      "downsample",
    ] as const;
    const graph = residualNet(blocks);
    const shownIn = (room: Room) =>
      firstScene(graph, "left", tableMeasure, false, room).nodes.length;
    const shown = shownIn({ width: 1370, height: 420 });
    expect(shownIn({ width: 1370, height: 420, tallest: 860 })).toBeGreaterThan(1.5 * shown);
    expect(shownIn({ width: 1370, height: 380, tallest: 860 })).toBe(shown); // too much is missing
  });

  it("may be taller where it then shows another strip, if that is legible", () => {
    const barsIn = (room: Room) =>
      firstScene(translator(6), "left", tableMeasure, false, room).nodes.filter(({ bar }) => bar)
        .length;
    const room = { width: 1000, height: 320 };
    expect([barsIn(room), barsIn({ ...room, tallest: 860 })]).toEqual([6, 12]);
    expect(barsIn({ ...room, tallest: 330 })).toBe(6);
  });

  it("opens one of many equal boxes where it leaves much of the height free", () => {
    const g = new Builder();
    const namespaces = Array.from("abcdefghijklmnop", (letter) => `net/block_${letter}`);
    let x = g.leaf("x", [4]);
    namespaces.forEach((path, i) => {
      for (let layer = 0; layer < 5 + (i % 2); layer++) {
        g.namespace = `${path}/layer${layer}`;
        const other = g.leaf(`${g.namespace.replaceAll("/", ".")}.weight`, [4 + i]);
        x = g.op("ExpBackward0", [4], { self: g.op("MulBackward0", [4], { self: x, other }) });
      }
    });
    g.namespace = "";
    const graph = g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
    const modules = { namespaces, classes: namespaces.map(() => 0), names: ["Block"] };
    const openIn = (room: Room) =>
      firstScene({ ...graph, modules }, "left", tableMeasure, false, room).frames.length - 1;
    expect(openIn({ width: 1370, height: 680, tallest: 860 })).toBe(1);
    expect(openIn({ width: 770, height: 680, tallest: 860 })).toBe(0);
  });

  it("has a convolution take in its normalisation and activation, and say what it is", () => {
    const { nodes } = sceneIn(resnet([2, 2, 2, 2]), ROOMS[0]);
    const stem = nodes.find(({ group }) => group?.paths[0] === "conv1");
    expect(stem?.group?.members.length).toBeGreaterThan(4);
  });

  it("leaves room for a number between lines that run side by side between rows of cards", () => {
    const g = new Builder();
    const start = g.op("ExpBackward0", [4], { self: g.leaf("x", [4]) });
    let x = start;
    for (let i = 0; i < 12; i++) x = g.op("TanhBackward0", [4], { self: x });
    const sum = g.op("MulBackward0", [4], { self: x, other: start });
    const graph = g.graph([g.op("SumBackward0", [], { self: sum }, "loss"), "loss"]);
    const { edges } = firstScene(graph, "left", tableMeasure, false, ROOMS[1]);
    const rails = edges.flatMap(({ curve }) =>
      Array.from({ length: (curve.length - 2) / 6 }, (_, i) => curve.slice(6 * i, 6 * i + 8))
        .filter(([x0, y0, , , , , x1, y1]) => y0 === y1 && Math.abs(x1 - x0) > 200)
        .map(([, y]) => y),
    );
    const gaps = [...new Set(rails)].sort((a, b) => a - b).map((y, i, all) => y - all[i - 1]);
    expect(gaps.length).toBeGreaterThan(1);
    expect(Math.min(...gaps.slice(1))).toBeGreaterThanOrEqual(12);
  });

  it("wraps between boxes rather than in them where that has fewer bends", () => {
    const g = new Builder();
    const chain = (box: string, input: number, memory: number | null) => {
      let x = input;
      for (let i = 0; i < 3; i++) {
        g.namespace = `${box}/linear${i}`;
        const weight = g.leaf(`${box}.linear${i}.weight`, [4, 4]);
        x = g.op("MmBackward0", [4, 4], { self: x, mat2: weight });
        g.namespace = box;
        const other = i % 2 === 1 && memory !== null ? memory : x;
        x = g.op("MulBackward0", [4, 4], { self: x, other });
      }
      g.namespace = "";
      return x;
    };
    const encoded = chain("encoder", g.leaf("x", [4, 4]), null);
    const decoded = chain("decoder", g.leaf("y", [4, 4]), encoded);
    const graph = g.graph([g.op("MeanBackward0", [], { self: decoded }, "loss"), "loss"]);
    const room = { width: 770, height: 680, tallest: 860 };
    const scene = firstScene(graph, "left", tableMeasure, false, room);
    expect(scene.frames.map(({ path }) => path).sort()).toEqual(["decoder", "encoder"]);
    for (const { left, right, top, bottom } of scene.frames) {
      const inside = scene.nodes.filter(
        ({ x, y }) => x > left && x < right && y > top && y < bottom,
      );
      const lowest = Math.max(...inside.map(({ y, shape }) => y - shape.height / 2));
      const highest = Math.min(...inside.map(({ y, shape }) => y + shape.height / 2));
      expect(lowest).toBeLessThan(highest);
    }
  });

  it("has compiled code open that was opened, with its modules closed, unless nobody could read that", () => {
    const box = "CompiledFunctionBackward";
    for (const [calls, each, isOpen] of [
      [3, 0, true],
      [120, 30, true],
      [12_000, 30, true],
      [3000, 0, false],
    ] as const) {
      const g = new Builder();
      let x = g.leaf("x", []);
      for (let i = 0; i < calls; i++) x = g.op("MmBackward0", [], { self: x });
      const graph = g.graph([g.op("SumBackward0", [], { self: g.op(box, [], { x }) }), "loss"]);
      const compiled = graph.nodes.findIndex(({ op }) => op === box);
      let at = 0;
      const nodes = graph.nodes.map((node) => {
        if (node.op !== "MmBackward0")
          return { ...node, namespace: node.op === box ? box : node.kind === "op" ? "" : null };
        const namespace = each === 0 ? box : `${box}/net/part${Math.floor(at++ / each)}`;
        return { ...node, kind: "call" as const, inside: compiled, namespace };
      });
      const { frames } = sceneIn({ ...graph, nodes }, ROOMS[0]);
      expect([calls, frames.some(({ path }) => path === box)]).toEqual([calls, isOpen]);
    }
  });
});
