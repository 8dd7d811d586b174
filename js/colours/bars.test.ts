import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { transformer } from "../demo/deep_models";
import { firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { NO_MARKS } from "../paint/marks";
import { barParts, tileAt } from "../paint/tiles";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { tableMeasure } from "../text/metrics";
import { normText } from "../text/number";
import type { JsonNumber } from "../wire";
import { tileGrads, uncoloured } from "./tile_grads";

const LAYERS = 6;
const graph = transformer(LAYERS);
const grouped = groupedGraph(graph);
const folding = toDepth(grouped.tree, firstFolding(grouped.tree), 2);
const scene = foldedScene(grouped, folding, "left", tableMeasure);
const bars = scene.nodes.filter(({ bar }) => bar);

/** The bars after a pass: one parameter of each layer has this gradient, all others have zeros. */
function passOf(norms: readonly (JsonNumber | null)[]) {
  const { steps, run } = fakeRun(graph, "fine");
  const recording = recordingOf(graph, steps, {
    ...run,
    grads: [],
    arrived: [],
    norms: run.edges.map((edge) => {
      const { kind, name } = graph.nodes[graph.edges[edge].target];
      const layer = /layers\.(\d+)\.linear1\.weight$/.exec(name ?? "")?.[1];
      return kind === "leaf" ? (layer === undefined ? 0 : norms[Number(layer)]) : 1;
    }),
  });
  return { recording, found: tileGrads(graph, scene, recording, tableMeasure).tiles };
}

describe("the bars of a strip", () => {
  it("are as high as their gradients are large, from nothing for 0", () => {
    const norm = fc.oneof(fc.constant(0), fc.double({ min: 1e-12, max: 1e6, noNaN: true }));
    fc.assert(
      fc.property(fc.array(norm, { minLength: LAYERS, maxLength: LAYERS }), (norms) => {
        const { found } = passOf(norms);
        const shares = bars.map(({ index }) => found.get(index)?.share ?? Number.NaN);
        shares.forEach((share, i) => {
          expect(share >= 0 && share <= 1.000001).toBe(true);
          expect(share > 0).toBe(norms[i] > 0);
          shares.forEach((other, j) => {
            if (norms[i] < norms[j]) expect(share).toBeLessThanOrEqual(other);
          });
        });
      }),
      { numRuns: 60 },
    );
  });

  it("are on a logarithmic scale of at least four decades, so that close norms have close heights", () => {
    const sharesOf = (norms: number[]) => {
      const { found } = passOf(norms);
      return bars.map(({ index }) => found.get(index)?.share ?? 0);
    };
    const healthy = sharesOf([1, 2, 3, 4, 5, 6]);
    expect(Math.max(...healthy) - Math.min(...healthy)).toBeLessThan(0.25);
    const vanishing = sharesOf([1, 0.1, 0.01, 1e-3, 1e-4, 1e-5]);
    expect(vanishing[0] - vanishing[1]).toBeCloseTo(vanishing[4] - vanishing[5], 6);
    expect(vanishing[0] - vanishing[5]).toBeGreaterThan(0.6);
    const { found } = passOf([1, 2, 3, 4, 5, 6]);
    expect(found.get(bars[0].index)?.words).toContain("logarithmic");
    expect(bars.map(({ index }) => found.get(index)?.text)).toContain("3.00");
  });

  it("tell NaN and zeros apart, and nothing of what is not known", () => {
    const { found } = passOf(["nan", "inf", 0, null, 1, 2]);
    const tints = bars.map(({ index }) => found.get(index)?.tint ?? null);
    expect(tints.slice(0, 4)).toEqual(["is-c-alarm", "is-c-alarm", "is-c-zero", null]);
  });

  it("are as high, but plain, where colours say nothing", () => {
    const { recording, found } = passOf([1, 2, 3, 4, 5, 6]);
    const progress = { recording, cursor: recording.steps.length };
    for (const bar of bars) {
      const marks = { ...NO_MARKS, progress };
      const [plain] = barParts(bar, { ...marks, tiles: uncoloured(found) });
      const [coloured] = barParts(bar, { ...marks, tiles: found });
      expect(plain.attributes).toEqual({ ...coloured.attributes, class: "gw-strip-fill is-plain" });
      expect(coloured.attributes.class).toMatch(/is-c\d/);
    }
  });

  it("fill while one steps, each when all of its gradient is there", () => {
    const { recording, found } = passOf([1, 2, 3, 4, 5, 6]);
    const filled = (cursor: number) =>
      bars.filter((bar) =>
        tileAt(bar, { ...NO_MARKS, tiles: found, progress: { recording, cursor } }),
      );
    const counts = [0, ...recording.steps.map(({ step }) => step)].map((c) => filled(c).length);
    expect(counts[0]).toBe(0);
    expect(counts.at(-1)).toBe(LAYERS);
    counts.slice(1).forEach((count, i) => {
      expect(count - counts[i] === 0 || count - counts[i] === 1).toBe(true);
    });
  });

  it("have numbers above them where not all fit: at both ends, the largest, the smallest, and more that fit", () => {
    const room = { width: 736, height: 600 };
    const narrow = foldedScene(grouped, folding, "left", tableMeasure, { room });
    const few = narrow.nodes.filter(({ bar }) => bar);
    expect(few.map(({ bar }) => bar?.above)).toEqual(Array(LAYERS).fill("middle"));
    const norms = [0.0444, 0.0333, 0.0322, 0.0101, 0.0233, 0.0222];
    const { recording } = passOf(norms);
    const { tiles } = tileGrads(graph, narrow, recording, tableMeasure);
    const texts = few.map(({ index }) => tiles.get(index)?.text ?? null);
    expect(texts).toEqual(["0.0444", "", "", "0.0101", "", "0.0222"]);
    // The tooltip of each has its number.
    for (const [i, { index }] of few.entries())
      expect(tiles.get(index)?.words).toContain(normText(norms[i]));
  });
});
