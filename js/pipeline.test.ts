import { describe, expect, it } from "vitest";
import { chain, perceptron } from "./demo/deep_models";
import { firstFolding, LARGEST_WHOLE } from "./fold/folding";
import { canFold, groupedGraph } from "./fold/grouped_graph";
import { foldedScene } from "./pipeline";
import { fitView } from "./scene/views";
import { estimate } from "./text/measure";

const chainIn = (length: number, room: { width: number; height: number }) => {
  const grouped = groupedGraph(chain(length));
  return foldedScene(grouped, firstFolding(grouped.tree), "left", estimate, { room });
};

describe("foldedScene", () => {
  it("wraps what is longer than the window like text, whatever its length", () => {
    for (const room of [
      { width: 1370, height: 560 },
      { width: 770, height: 480 },
    ]) {
      for (const length of [40, 300, 2000]) {
        const scene = chainIn(length, room);
        const { k } = fitView(scene, room);
        const filled = (k * k * scene.width * scene.height) / (room.width * room.height);
        expect(filled).toBeGreaterThan(0.4);
      }
    }
  });

  it("leaves what is no longer in one line, data at its left", () => {
    const { nodes } = chainIn(8, { width: 2000, height: 560 });
    expect(new Set(nodes.map(({ y }) => y)).size).toBe(1);
    expect(nodes.find(({ leaf }) => leaf)?.x).toBe(Math.min(...nodes.map(({ x }) => x)));
  });

  it("reads from the first line to the last, as the data flows", () => {
    const { nodes } = chainIn(300, { width: 1370, height: 560 });
    const y = (pick: (node: (typeof nodes)[number]) => boolean) =>
      nodes.find(pick)?.y ?? Number.NaN;
    expect(y(({ leaf }) => leaf)).toBeLessThan(y(({ root }) => root));
  });
});

describe("canFold", () => {
  it("is so for modules of any number, and for many nodes", () => {
    expect(canFold(groupedGraph(perceptron()))).toBe(true);
    expect(canFold(groupedGraph(chain(LARGEST_WHOLE)))).toBe(true);
    expect(canFold(groupedGraph(chain(LARGEST_WHOLE - 10)))).toBe(false);
  });
});
