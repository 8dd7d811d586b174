import { expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { transformer } from "../demo/deep_models";
import { MODELS } from "../demo/models";
import { firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { boxOf } from "../scene/find";
import { overlap } from "../scene/grid";
import type { Scene } from "../scene/scene";
import { sceneOf } from "../testing/scenes";
import { estimate, FONTS } from "../text/measure";
import { headBox, headsIn } from "./frame_layer";
import { mapName, mapScale } from "./level_of_detail";

const EVERYWHERE = { left: -1e6, top: -1e6, right: 1e6, bottom: 1e6 };
const SCALES = [0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01];

function* scenes(): Generator<Scene> {
  const grouped = groupedGraph(transformer(3));
  for (const depth of [1, 2, 3]) {
    const folding = toDepth(grouped.tree, firstFolding(grouped.tree), depth);
    yield foldedScene(grouped, folding, "left", estimate);
  }
  // Longer loops only repeat the first.
  const few = Object.entries(MODELS).filter(([name]) => !/\d{3} steps/.test(name));
  for (const [, make] of few) yield sceneOf(make());
}

it("writes no name that does not lie within its own box, at 10 px", () => {
  let written = 0;
  // One expectation for all, since there are very many.
  const wrong: string[] = [];
  for (const scene of scenes()) {
    for (const scale of SCALES.filter((one) => one < mapScale(scene))) {
      for (const node of scene.nodes) {
        const name = mapName(node, scale);
        if (name === "") continue;
        written++;
        const { texts, width, height } = node.shape;
        const isIts = texts.some(
          ({ text }) => text.startsWith(name[0]) || text.endsWith(name.slice(1)),
        );
        const isWithin = (estimate(name, "title") * 10) / FONTS.title.size <= width * scale;
        if (!isIts || !isWithin || height * scale <= 12)
          wrong.push(`${name} on ${node.id} at ${scale}`);
      }
    }
  }
  expect(wrong).toEqual([]);
  expect(written).toBeGreaterThan(100);
});

it("leaves out a box's title that would lie on a node", () => {
  for (const scene of scenes()) {
    for (const scale of SCALES) {
      for (const head of headsIn(scene, EVERYWHERE, scale)) {
        const place = headBox(head, scale);
        const covered = scene.nodes.filter((node) => overlap(boxOf(node), place));
        expect(covered.map(({ id }) => `${head.path} lies on ${id} at ${scale}`)).toEqual([]);
      }
    }
  }
});

it("reads boards from nearer than pictures of boxes, and names only what is not read", () => {
  const board = sceneOf(MODELS["h = w * x + b"]());
  const [boxes] = scenes();
  expect(mapScale(board)).toBeLessThan(0.55);
  expect(mapScale(boxes)).toBeGreaterThan(0.55);
});
