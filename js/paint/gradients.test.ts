import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { DIRECTIONS, type Direction, isHorizontal } from "../layout/direction";
import { type Box, overlap, type Place } from "../scene/grid";
import { extentOf } from "../scene/obstacles";
import { passedIn, recordingOf } from "../steps/recording";
import { chipFaults } from "../testing/chips";
import { fakeRun, SITUATIONS } from "../testing/fake_run";
import { placeGradients } from "../testing/gradients";
import { graphs, MODELS } from "../testing/graphs";
import { plainSceneOf, sceneOf } from "../testing/scenes";
import { exactText } from "../text/gradient";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { FEW_EDGES, sumsOf, visibleGradients } from "./gradients";

function placed(
  graph: GraphModel,
  direction: Direction,
  situation = SITUATIONS[0] as never,
  cards = false,
) {
  const scene = (cards ? sceneOf : plainSceneOf)(graph, direction);
  const { steps, run } = fakeRun(graph, situation);
  const recording = recordingOf(graph, steps, run);
  return { scene, steps, run, recording, labels: placeGradients(scene, recording, estimate) };
}

const boxOf = ({ x, y, width, height }: Place): Box => ({
  left: x - width / 2,
  top: y - height / 2,
  right: x + width / 2,
  bottom: y + height / 2,
});

describe("gradients on edges", () => {
  it("cover no node, no argument and no other gradient", () => {
    fc.assert(
      fc.property(graphs, fc.constantFrom(...DIRECTIONS), (graph, direction) => {
        const { scene, labels } = placed(graph, direction);
        const taken = [
          ...scene.nodes.map((node) => extentOf(node, isHorizontal(direction))),
          ...scene.edges.flatMap(({ label }) => (label ? [boxOf(label)] : [])),
        ];
        for (const label of labels) {
          const box = boxOf(label);
          expect(taken.filter((other) => overlap(box, other))).toEqual([]);
          taken.push(box);
        }
      }),
    );
  });

  it("are nearer to their own edge than to any other, and cover nothing", () => {
    const models = Object.values(MODELS).map((make) => make());
    const some = fc.oneof(
      graphs,
      fc.constantFrom(...models.filter(({ nodes }) => nodes.length < 60)),
    );
    fc.assert(
      fc.property(some, fc.constantFrom(...DIRECTIONS), fc.boolean(), (graph, direction, cards) => {
        const { scene, labels } = placed(graph, direction, "fine" as never, cards);
        expect(chipFaults(scene, labels)).toEqual([]);
      }),
    );
  });

  it("do so among boxes, open and closed, in any window, with local derivatives", () => {
    const room = fc.record({
      width: fc.integer({ min: 400, max: 1600 }),
      height: fc.integer({ min: 300, max: 900 }),
      derivatives: fc.boolean(),
    });
    const spaces = fc.array(fc.constantFrom(null, "", "net", "net/a", "net/a/0", "head"), {
      minLength: 24,
    });
    const given = fc.tuple(graphs, spaces, fc.constantFrom(...DIRECTIONS), room, fc.nat(3));
    fc.assert(
      fc.property(given, ([graph, at, direction, window, depth]) => {
        const nodes = graph.nodes.map((node, i) => {
          const namespace = node.kind === "op" ? at[i % at.length] : null;
          return { ...node, namespace, value: node.id + 0.5, shape: [] };
        });
        const derivatives = [{ node: nodes.length - 1, of: 0 }];
        const modular = { ...graph, nodes, derivatives };
        const grouped = groupedGraph(modular);
        const folding = toDepth(grouped.tree, firstFolding(grouped.tree), depth);
        const scene = foldedScene(grouped, folding, direction, estimate, { room: window });
        const { steps, run } = fakeRun(modular, "fine" as never);
        const labels = placeGradients(scene, recordingOf(modular, steps, run), estimate);
        expect(chipFaults(scene, labels)).toEqual([]);
      }),
    );
  });

  it.each(DIRECTIONS)("find a place on every edge of the small models, flowing %s", (direction) => {
    for (const name of ["h = w * x + b", "x used three times", "(x + 1 - 2 * x) ** 2"]) {
      const { run, labels } = placed(MODELS[name](), direction);
      const written = labels.filter((label) => label.edge !== null).map((label) => label.edge);
      expect(written.sort()).toEqual([...run.edges].sort());
      expect(labels.some((label) => label.text.startsWith("starts with 1"))).toBe(true);
    }
  });

  it("say at a closed box with the only output what it starts with", () => {
    const graph = MODELS["x used three times"]();
    const nodes = graph.nodes.map((node) => ({
      ...node,
      namespace: node.kind === "op" ? "net" : null,
    }));
    const texts = (roots: GraphModel["roots"]) => {
      const boxed = { ...graph, nodes, roots };
      const grouped = groupedGraph(boxed);
      const folding = toDepth(grouped.tree, firstFolding(grouped.tree), 0);
      const scene = foldedScene(grouped, folding, "right", estimate);
      expect(scene.nodes.filter(({ group }) => group)).toHaveLength(1);
      const { steps, run } = fakeRun(boxed, "fine" as never);
      const labels = placeGradients(scene, recordingOf(boxed, steps, run), estimate);
      return labels.filter(({ from }) => from === 0).map(({ text }) => text);
    };
    expect(texts(graph.roots)).toEqual(["starts with 1"]);
    const other = graph.nodes.find(({ id, kind }) => kind === "op" && id !== graph.roots[0].node);
    expect(texts([...graph.roots, { ...graph.roots[0], node: other?.id ?? 0 }])).toEqual([]);
  });

  it("show all digits on hover", () => {
    const { run, labels } = placed(MODELS["x used three times"](), "down");
    for (const { edge, exact } of labels) {
      if (edge === null) continue;
      const i = run.edges.indexOf(edge);
      expect(exact).toBe(exactText(passedIn(run, i)));
    }
  });

  it("show what has flowed by the cursor, and the .grad that has grown", () => {
    const graph = MODELS["(x + 1 - 2 * x) ** 2"]();
    const { scene, recording, labels } = placed(graph, "down");
    const texts = (cursor: number) =>
      visibleGradients(labels, scene, { recording, cursor }).map((label) => label.text);
    expect(texts(0)).toEqual(["starts with 1"]);
    expect(texts(1).sort()).toEqual(["starts with 1", "\u22124"]);
    expect(texts(4).sort()).toEqual(["4", "8", "starts with 1", "\u22124", "\u22124", "\u22124"]);
    expect(texts(5)).toContain("grad 4");
  });

  it("stay at the node that runs in a large graph", () => {
    const graph = MODELS["RNN, 40 steps"]();
    expect(graph.edges.length).toBeGreaterThan(FEW_EDGES);
    const { scene, recording, labels, steps } = placed(graph, "down");
    const seen = visibleGradients(labels, scene, { recording, cursor: 50 });
    const { node } = steps[49];
    expect(seen.length).toBeGreaterThan(1);
    for (const label of seen) expect(label.from === 0 || label.nodes.includes(node)).toBe(true);
  });

  it("stay at the node that runs, too, if most nodes are boxes with their own numbers", () => {
    const { scene, recording, labels, steps } = placed(MODELS["(x + 1 - 2 * x) ** 2"](), "down");
    const tile = { number: null, under: 0, isLayer: true, rest: "" };
    const nodes = scene.nodes.map((node) => ({ ...node, shape: { ...node.shape, tile } }));
    const cursor = steps.length;
    const seen = (some: typeof scene) =>
      visibleGradients(labels, some, { recording, cursor }).filter(({ edge }) => edge !== null);
    expect(seen(scene).length).toBeGreaterThan(0);
    expect(seen({ ...scene, nodes })).toEqual([]);
  });

  it("tell NaN from numbers", () => {
    const { labels } = placed(MODELS["h = w * x + b"](), "down", "nan" as never);
    expect(labels.filter((label) => label.alarming).length).toBeGreaterThan(0);
    for (const label of labels) expect(label.alarming).toBe(label.text.includes("nan"));
  });
});

it("a sum loses decimals where it is too long, but no summand", () => {
  expect(sumsOf([-6.942115, -20.826345])).toEqual([
    "\u22126.942 \u2212 20.83",
    "\u22126.942 \u2212 20.83",
    "\u22126.94 \u2212 20.83",
    "\u22126.9 \u2212 20.8",
  ]);
  expect(sumsOf([0.5, -0.0041649])).toEqual(["0.5 \u2212 0.004165", "0.5 \u2212 0.004"]);
  expect(sumsOf([0, 1e-9])).toEqual(["0 + 1e\u22129"]);
  expect(sumsOf([3, 4]).at(-1)).toBe("3 + 4");
});
