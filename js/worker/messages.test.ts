import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { chain, perceptron, transformer } from "../demo/deep_models";
import {
  deepest,
  type Folding,
  firstFolding,
  setPlumbing,
  setRepeats,
  toDepth,
} from "../fold/folding";
import { type GroupedGraph, groupedGraph } from "../fold/grouped_graph";
import { DIRECTIONS } from "../layout/direction";
import type { Scene } from "../scene/scene";
import { graphs, MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { joined, piecesOf, restOf } from "./messages";

const NAMESPACES = [null, "", "net", "net/a", "net/a/0", "net/a/1", "head"];

/** The scene after its transfer. */
function across(scene: Scene): Scene {
  const pieces = Array.from(piecesOf(scene), ([piece, points]) => {
    const sent = structuredClone(piece, { transfer: [points] });
    expect(points.byteLength).toBe(0);
    return sent;
  });
  return joined(pieces, structuredClone(restOf(scene)));
}

function open({ tree }: GroupedGraph): Folding {
  return setPlumbing(toDepth(tree, firstFolding(tree), deepest(tree)), false);
}

function scenesOf(graph: GraphModel): Scene[] {
  const grouped = groupedGraph(graph);
  const first = firstFolding(grouped.tree);
  return [first, open(grouped), setRepeats(toDepth(grouped.tree, first, 1), true)].flatMap(
    (folding, i) =>
      [1000, 100_000].map((side) =>
        foldedScene(grouped, folding, DIRECTIONS[i], estimate, {
          room: { width: side, height: side },
        }),
      ),
  );
}

describe("a scene in pieces", () => {
  const deep = { perceptron, transformer: () => transformer(3), chain: () => chain(300) };
  // Longer loops only repeat the first.
  const all = Object.entries({ ...MODELS, ...deep }).filter(([name]) => !/\d{3} steps/.test(name));
  it.each(all)("of %s is the same when it arrives", (_, make) => {
    for (const scene of scenesOf(make())) expect(across(scene)).toStrictEqual(scene);
  });

  it("is the same for any graph with modules", () => {
    fc.assert(
      fc.property(
        graphs,
        fc.array(fc.nat(NAMESPACES.length - 1), { minLength: 24 }),
        (graph, at) => {
          const nodes = graph.nodes.map((node, i) => ({
            ...node,
            kind: i % 7 === 3 && node.kind === "leaf" ? ("constant" as const) : node.kind,
            namespace: node.kind === "op" ? NAMESPACES[at[i]] : null,
          }));
          for (const scene of scenesOf({ ...graph, nodes })) {
            expect(across(scene)).toStrictEqual(scene);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it("shares the shapes of copies", () => {
    const scene = sceneOf(MODELS["RNN, 40 steps"]());
    const looks = new Set(scene.nodes.map(({ shape }) => shape));
    expect(looks.size).toBeLessThan(scene.nodes.length);
    expect(new Set(across(scene).nodes.map(({ shape }) => shape)).size).toBe(looks.size);
  });

  it("comes a little at a time", () => {
    const grouped = groupedGraph(chain(9000));
    const scene = foldedScene(grouped, open(grouped), "up", estimate);
    const sizes = Array.from(piecesOf(scene), ([{ nodes }]) => nodes.length);
    expect(Math.max(...sizes)).toBeLessThan(2500);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(scene.nodes.length);
  });
});
