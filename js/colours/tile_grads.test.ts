import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeScene } from "../arrange/pipeline";
import { firstFolding, toDepth } from "../fold/folding";
import { foldedPlan, groupedGraph } from "../fold/grouped_graph";
import { NO_MARKS } from "../paint/marks";
import { tileAt, tintOf } from "../paint/tiles";
import { membersOf } from "../scene/members";
import { recordingOf } from "../steps/recording";
import { residualNet } from "../testing/residual";
import { estimate } from "../text/measure";
import { normText } from "../text/number";
import type { JsonNumber, RunModel, StepModel } from "../wire";
import { tilesLegend } from "./colouring";
import { passNorms } from "./norms";
import { tileGrads, uncoloured } from "./tile_grads";

const graph = residualNet(["identity", "gate"]);
const parameters = graph.nodes.filter(({ name }) => name?.includes(".")).map(({ id }) => id);
const grouped = groupedGraph(graph);
const scenes = [0, 1, 2].map((depth) => {
  const folding = toDepth(grouped.tree, firstFolding(grouped.tree), depth);
  return makeScene(graph, foldedPlan(grouped, folding), "left", estimate);
});

/** A pass with these norms of the parameters' gradients, in the order of their ids; null for none. */
function pass(norms: readonly (JsonNumber | null)[], before = false) {
  const reached = parameters.filter((_, i) => norms[i] !== null);
  const steps = reached.map(
    (node, i): StepModel => ({
      node,
      step: i + 1,
      ready: i + 1,
      op: "AccumulateGrad",
      name: null,
      accumulated: null,
    }),
  );
  const few = (id: number) => ({ values: null, norm: norms[parameters.indexOf(id)] });
  const run: RunModel = {
    run: 1,
    ended: "done",
    seeds: [],
    edges: [],
    values: [],
    norms: [],
    marks: [],
    arrived: before ? reached.map((node) => ({ node, ...few(node) })) : [],
    grads: reached.map((node) => ({
      node,
      ...(before ? { values: null, norm: 1e9 } : few(node)),
      before: before ? { values: null, norm: 1e9 } : null,
      changed: false,
      now: null,
    })),
  };
  return recordingOf(graph, steps, run);
}

const norm = fc.oneof(fc.double({ min: 1e-12, max: 1e12, noNaN: true }), fc.constant(0));
const norms = fc.array(fc.option(norm), {
  minLength: parameters.length,
  maxLength: parameters.length,
});

describe("the number on a tile", () => {
  it("is the norm of all that the pass brought to its parameters, as one vector", () => {
    fc.assert(
      fc.property(norms, fc.boolean(), fc.constantFrom(...scenes), (given, before, scene) => {
        const recording = pass(given, before);
        const { tiles } = tileGrads(graph, scene, recording, estimate);
        for (const node of scene.nodes) {
          if (!node.group) continue;
          const own = membersOf(node).filter((id) => parameters.includes(id));
          const known = own
            .map((id) => given[parameters.indexOf(id)])
            .filter((value): value is number => typeof value === "number");
          const grad = tiles.get(node.index);
          if (known.length === 0) {
            expect(grad).toBeUndefined();
            continue;
          }
          const largest = Math.max(...known, Number.MIN_VALUE);
          const root = Math.sqrt(known.reduce((sum, one) => sum + (one / largest) ** 2, 0));
          const true_ = largest === Number.MIN_VALUE ? 0 : largest * root;
          const listed = Number(grad?.text.replace("\u2212", "-"));
          expect(Math.abs(listed - true_)).toBeLessThanOrEqual(0.006 * true_);
          expect(grad?.tint === "is-c-zero").toBe(true_ === 0);
        }
      }),
      { numRuns: 60 },
    );
  });

  it("is seen once all of it has arrived, and with it its colour", () => {
    const recording = pass(parameters.map((_, i) => i + 1));
    for (const scene of scenes) {
      const { tiles } = tileGrads(graph, scene, recording, estimate);
      for (let cursor = 0; cursor <= parameters.length; cursor++) {
        const marks = { ...NO_MARKS, tiles, progress: { recording, cursor } };
        for (const node of scene.nodes) {
          const own = membersOf(node).filter((id) => parameters.includes(id));
          const isThere = own.length > 0 && own.every((id) => recording.step[id] <= cursor);
          expect(tileAt(node, marks) !== null).toBe(isThere && node.group !== undefined);
          expect(tintOf(node, marks) !== "").toBe(isThere && node.group !== undefined);
        }
      }
    }
  });

  it("is left out where a part of it is not known, and says NaN where one is", () => {
    const [, , scene] = scenes;
    const unknown = pass(parameters.map(() => 1));
    const [lost] = parameters;
    const without = {
      ...unknown,
      stored: new Map([...unknown.stored].filter(([id]) => id !== lost)),
    };
    const [index] = scene.drawn[lost];
    expect(tileGrads(graph, scene, unknown, estimate).tiles.has(index)).toBe(true);
    expect(tileGrads(graph, scene, without, estimate).tiles.has(index)).toBe(false);
    for (const value of ["nan", "inf"]) {
      const { tiles } = tileGrads(
        graph,
        scene,
        pass(parameters.map((_, i) => (i ? 1 : value))),
        estimate,
      );
      expect(tiles.get(index)).toMatchObject({ text: "NaN or Inf", tint: "is-c-alarm" });
    }
  });

  it("says of how many parameters it is", () => {
    const [scene] = scenes;
    const { tiles } = tileGrads(
      graph,
      scene,
      pass(parameters.map((_, i) => (i ? 2 : null))),
      estimate,
    );
    const words = Array.from(tiles.values(), (grad) => grad.words).join("\n");
    expect(words).toMatch(/gradient norm of its \d of \d parameters: /);
    expect(words).toMatch(/gradient norm of its 2 parameters: 2\.83/);
  });
});

it("the legend has a name and its ends; without colours the numbers stay", () => {
  const grads = tileGrads(graph, scenes[2], pass(parameters.map((_, i) => i + 2)), estimate);
  expect(tilesLegend(grads)).toMatchObject({ isNamed: true });
  expect(tilesLegend(grads)?.ticks?.length).toBeGreaterThan(0);
  const plain = uncoloured(grads.tiles);
  expect([...plain.values()].map(({ text }) => text)).toEqual(
    Array.from(grads.tiles.values(), ({ text }) => text),
  );
  expect([...plain.values()].every(({ tint }) => tint === "")).toBe(true);
});

it.each([
  [10, "10.0"],
  [0.575, "0.575"],
  [999.9, "1000"],
  [1234.5, "1235"],
  [4.2249e-5, "4.22e\u22125"],
  [3e7, "3.00e7"],
  [0, "0"],
  [Number.POSITIVE_INFINITY, "NaN or Inf"],
])("writes %d as %s", (value, text) => {
  expect(normText(value)).toBe(text);
});

it("keeps the colour of a norm when other boxes open", () => {
  fc.assert(
    fc.property(norms, (given) => {
      const recording = pass(given);
      const all = passNorms(grouped, recording, false);
      const scales = scenes.map((scene) => tileGrads(graph, scene, recording, estimate, all).scale);
      expect(new Set(scales.map((scale) => JSON.stringify(scale))).size).toBe(1);
    }),
  );
});
