import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { deepest, firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { DIRECTIONS } from "../layout/direction";
import { graphs } from "../testing/graphs";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { overlap } from "./grid";
import { linksAt } from "./links";
import { extentOf } from "./obstacles";
import type { Scene } from "./scene";

const NAMESPACES = [null, "", "net", "net/a", "net/a/0", "net/a/1", "head"];

/** Graphs with modules, and pairs of their operations as derivatives. */
const derived = fc
  .tuple(
    graphs,
    fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 20 }),
    fc.array(fc.nat(NAMESPACES.length - 1), { minLength: 24 }),
  )
  .map(([graph, pairs, at]): GraphModel => {
    const nodes = graph.nodes.map((node, i) => ({
      ...node,
      namespace: node.kind === "op" ? NAMESPACES[at[i % at.length]] : null,
    }));
    const count = nodes.length;
    const derivatives = pairs.map(([node, of]) => ({ node: node % count, of: of % count }));
    return { ...graph, nodes, derivatives };
  });

function scenesOf(graph: GraphModel): Scene[] {
  const grouped = groupedGraph(graph);
  const first = firstFolding(grouped.tree);
  return [first, toDepth(grouped.tree, first, deepest(grouped.tree))].flatMap((folding) =>
    DIRECTIONS.map((direction) => foldedScene(grouped, folding, direction, estimate)),
  );
}

describe("links from derivatives", () => {
  it("tie each drawn pair once, and move nothing", () => {
    fc.assert(
      fc.property(derived, (graph) => {
        const without = scenesOf({ ...graph, derivatives: [] });
        scenesOf(graph).forEach((scene, i) => {
          const { links = [], ...rest } = scene;
          expect(rest).toEqual(without[i]);
          const pairs = graph.derivatives.flatMap(({ node, of }) => {
            const [source, target] = [scene.drawn[node][0], scene.drawn[of][0]];
            const isSeen = source !== undefined && target !== undefined && source !== target;
            return isSeen ? [`${source} ${target}`] : [];
          });
          expect(links.map(({ source, target }) => `${source} ${target}`)).toEqual([
            ...new Set(pairs),
          ]);
        });
      }),
      { numRuns: 15, endOnFailure: true },
    );
  });

  it("end at their nodes, and their words cover no node and one another", () => {
    fc.assert(
      fc.property(derived, (graph) => {
        for (const scene of scenesOf(graph)) {
          const horizontal = scene.direction === "left" || scene.direction === "right";
          const boxes = scene.nodes.map((node) => extentOf(node, horizontal));
          const words = (scene.links ?? []).flatMap(({ label }) => (label ? [label] : []));
          const places = words.map(({ x, y, width, height }) => ({
            left: x - width / 2,
            top: y - height / 2,
            right: x + width / 2,
            bottom: y + height / 2,
          }));
          places.forEach((place, i) => {
            for (const box of boxes) expect(overlap(box, place)).toBe(false);
            for (const other of places.slice(0, i)) expect(overlap(other, place)).toBe(false);
          });
          for (const { curve, source, target } of scene.links ?? []) {
            expect(curve.every(Number.isFinite)).toBe(true);
            for (const [at, x, y] of [
              [source, curve[0], curve[1]],
              [target, curve[6], curve[7]],
            ] as const) {
              const { left, top, right, bottom } = boxes[at];
              expect(Math.max(left - x, x - right, top - y, y - bottom)).toBeLessThan(8);
            }
          }
        }
      }),
      { numRuns: 15, endOnFailure: true },
    );
  });

  it("are drawn by themselves while they are few, else at the selected node", () => {
    fc.assert(
      fc.property(derived, fc.nat(), (graph, at) => {
        for (const scene of scenesOf(graph)) {
          const { links = [] } = scene;
          const selected = at % graph.nodes.length;
          const shown = linksAt(scene, selected);
          const ends = new Set(scene.drawn[selected]);
          const own = links.filter(({ source, target }) => ends.has(source) || ends.has(target));
          expect(shown).toEqual(links.length > 12 ? own : links);
          expect(linksAt(scene, null)).toEqual(links.length > 12 ? [] : links);
        }
      }),
      { numRuns: 10, endOnFailure: true },
    );
  });
});
