import { describe, expect, it } from "vitest";
import { makeScene } from "../../arrange/pipeline";
import { firstFolding, toDepth, wholeFolding } from "../../fold/folding";
import { foldedPlan, groupedGraph } from "../../fold/grouped_graph";
import { headsIn } from "../../paint/frame_layer";
import { NO_MARKS } from "../../paint/marks";
import { nodeParts } from "../../paint/node_parts";
import type { Part } from "../../paint/parts";
import { rankParts } from "../../paint/rank_strips";
import { MODELS } from "../../testing/graphs";
import { withRanks } from "../../testing/ranks";
import { residualNet } from "../../testing/residual";
import { plainSceneOf, sceneOf } from "../../testing/scenes";
import { estimate } from "../../text/measure";
import type { GraphModel } from "../../wire";
import { rankStrips } from "./rank_strips";

const graph = MODELS["h = w * x + b"]();

function strips(given: GraphModel, shown: number | null = 0) {
  const scene = sceneOf(given);
  return { scene, ranks: rankStrips(given, scene, null, shown) };
}

/** The classes of all parts, nested ones included. */
function classes(parts: readonly Part[]): string[] {
  return parts.flatMap(({ attributes, content }) => [
    `${attributes.class ?? ""}`,
    ...(typeof content === "string" ? [] : classes(content)),
  ]);
}

describe("strips over ranks", () => {
  it("are in every node of autograd's that has one, and nowhere without ranks", () => {
    expect(strips(graph).ranks).toBeNull();
    expect(sceneOf(graph).nodes.every(({ shape }) => shape.ranks === undefined)).toBe(true);
    for (const scene of [sceneOf(withRanks(graph, [1, 2])), plainSceneOf(withRanks(graph, [1, 2]))])
      expect(scene.nodes.every(({ shape }) => shape.ranks)).toBe(true);
  });

  it.each(["cards", "boxes"])("lie within their node and clear of its texts: %s", (how) => {
    const draw = how === "cards" ? sceneOf : plainSceneOf;
    for (const bars of [1, 2, 16]) {
      const given = withRanks(
        graph,
        Array.from({ length: bars }, (_, i) => 1 + i),
      );
      for (const { shape } of draw(given).nodes) {
        const { x, y, width, height } = shape.ranks ?? { x: 0, y: 0, width: 0, height: 0 };
        expect(width / bars).toBeGreaterThanOrEqual(2.5);
        expect(Math.abs(x) + width / 2).toBeLessThanOrEqual(shape.width / 2);
        expect(Math.abs(y) + height / 2).toBeLessThanOrEqual(shape.height / 2 + 2);
        for (const text of shape.texts) {
          if (shape.card && Math.abs(text.y) > shape.height / 2) continue; // beside it
          expect(Math.abs(text.y)).toBeLessThanOrEqual(shape.height / 2);
          expect(text.y <= y - height / 2 || text.y >= y + height / 2 + 6).toBe(true);
        }
      }
    }
  });

  it("has bars as high as the norms are large, on a logarithmic scale where they are far apart", () => {
    const near = strips(withRanks(graph, [1, 2, 4])).ranks?.get(0);
    expect(near?.bars.map(({ most }) => most)).toEqual([0.25, 0.5, 1]);
    expect(near?.bars.map(({ isShown }) => isShown)).toEqual([true, false, false]);
    expect(near?.words).toBe("gradient norm over the ranks 1.00 to 4.00 (height: linear)");
    const far = strips(withRanks(graph, [1e-6, 1])).ranks?.get(0);
    expect(far?.bars[0].most).toBeCloseTo(0.06);
    expect(far?.words).toContain("logarithmic");
  });

  it("tells NaN, no gradient and the odd one by shapes and in words", () => {
    const change = { not_finite: [1], without: [2], odd: [1, 2, 3] };
    const { scene, ranks } = strips(withRanks(graph, [1, null, null, 100], change));
    const found = classes(rankParts(scene.nodes[0], { ...NO_MARKS, ranks }));
    const count = (name: string) => found.filter((one) => one.split(" ")[0] === name).length;
    expect(count("gw-rank-cross")).toBe(1);
    expect(count("gw-rank-none")).toBe(1);
    expect(count("gw-rank-bar")).toBe(2);
    expect(count("gw-rank-odd")).toBe(3);
    expect(count("gw-rank-shown")).toBe(1);
    const words = ranks?.get(0)?.words;
    expect(words).toContain("NaN or Inf on rank 1, none on rank 2, not as most: ranks 1, 2, 3");
  });

  it("has a range in each bar that stands for several ranks", () => {
    const many = Array.from({ length: 16 }, (_, i) => 2 + i);
    const { scene, ranks } = strips(withRanks(graph, many, { least: many.map(() => 1) }, 4), 6);
    const strip = ranks?.get(0);
    expect(strip?.bars.map(({ isShown }) => isShown).indexOf(true)).toBe(1);
    expect(strip?.words).toContain("1.00 to 17.0");
    const found = classes(rankParts(scene.nodes[0], { ...NO_MARKS, ranks }));
    expect(found.filter((one) => one.startsWith("gw-rank-range"))).toHaveLength(16);
  });

  it("is there once all of its gradient is", () => {
    const { scene, ranks } = strips(withRanks(graph, [1, 2]));
    const strip = ranks?.get(0);
    const late = new Map(strip && [[0, { ...strip, from: 2 }]]);
    expect(rankParts(scene.nodes[0], { ...NO_MARKS, ranks: late })).toEqual([]);
  });

  it("adds up the parameters of a closed box as one vector", () => {
    const net = withRanks(residualNet(["identity", "gate"]), [3, 4]);
    const grouped = groupedGraph(net);
    const folding = toDepth(grouped.tree, firstFolding(grouped.tree), 0);
    const scene = makeScene(net, foldedPlan(grouped, folding), "left", estimate);
    const ranks = rankStrips(net, scene, null, 0);
    const boxes = scene.nodes.filter(({ group, shape }) => group && shape.ranks);
    expect(boxes.length).toBeGreaterThan(0);
    for (const { index, group } of boxes) {
      const root = Math.sqrt(group?.leaves.length ?? 0);
      expect(ranks?.get(index)?.words).toContain(`${Number((3 * root).toPrecision(3))}`);
      expect(ranks?.get(index)?.bars.map(({ most }) => most)).toEqual([0.75, 1]);
    }
  });

  it("has which ranks lack an open box in its head, once, where that is the same of all in it", () => {
    const net = residualNet(["identity", "gate"]);
    const missing = withRanks(net, [1, 2], { only: "not on rank 1" });
    const { ranks } = missing;
    const nodes = ranks?.nodes.map((strip, i) => (i > 0 ? strip : { ...strip, only: null })) ?? [];
    const some = { ...missing, ranks: ranks && { ...ranks, nodes } };
    for (const given of [missing, some]) {
      const grouped = groupedGraph(given);
      const plan = foldedPlan(grouped, wholeFolding(grouped.tree));
      const scene = makeScene(given, plan, "left", estimate);
      const { frames, nodes, signs } = scene;
      const heads = frames.filter(({ facts }) => facts[0]?.text.startsWith("not on rank 1"));
      const lacking = nodes.filter(({ only }) => only !== undefined);
      expect(lacking.some(({ isStated }) => isStated)).toBe(true);
      for (const node of lacking) {
        const around = heads.filter(
          ({ left, right, top, bottom }) =>
            node.x > left && node.x < right && node.y > top && node.y < bottom,
        );
        expect(around).toHaveLength(node.isStated ? 1 : 0);
        expect(classes(nodeParts(node)).includes("gw-only-tag")).toBe(
          !node.isStated && !node.shape.sign,
        );
        expect(classes(nodeParts(node))).toContain("gw-only-ground");
      }
      // Seen from so far away that a head has few words.
      const all = { left: 0, top: 0, right: scene.width, bottom: scene.height };
      const titles = headsIn(scene, all, 0.6).filter(({ says }) => says !== undefined);
      expect(titles.length).toBeGreaterThan(0);
      for (const { title } of titles) expect(title).toContain(" · not on rank 1");
      expect(signs?.length).toBe(
        lacking.filter(({ isStated, shape }) => !isStated && !shape.sign).length,
      );
    }
  });

  it("marks a node that some ranks lack with words, and keeps texts off them", () => {
    const given = withRanks(graph, [1, 2], { only: "only on rank 0" });
    const scene = sceneOf(given);
    for (const node of scene.nodes) {
      expect(node.only).toBe("only on rank 0");
      const found = classes(nodeParts(node));
      expect(found).toContain("gw-only-ground");
      expect(found).toContain("gw-only-tag");
    }
    expect(scene.signs).toHaveLength(scene.nodes.length);
    expect(classes(nodeParts(sceneOf(withRanks(graph, [1])).nodes[0]))).not.toContain(
      "gw-only-ground",
    );
  });
});
