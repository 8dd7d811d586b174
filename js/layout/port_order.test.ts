import { expect, it } from "vitest";
import { judge } from "../testing/drawn";
import { layout } from "./index";

type Edge = [number, number];

/** The crossings of a picture of nodes of 40 by 30 px. */
function crossings(edges: Edge[], of: number[], parent: number[], aspect?: number): number {
  const [source, target] = [edges.map(([a]) => a), edges.map(([, b]) => b)];
  const [width, height] = [of.map(() => 40), of.map(() => 30)];
  const input = { n: of.length, source, target, width, height, boxes: { of, parent } };
  const placed = layout(input, aspect === undefined ? {} : { aspect, long: 200 });
  return judge({ ...placed, width, height, source, target, start: placed.pointStart }).crossings;
}

it("takes lines of two calls to both sides of their box without crossings", () => {
  // 0 uses the box by 1 directly and by 2 -> 3; the calls 4 and 5 share 6, and have the inputs 7 -> 9 and 8
  const calls: Edge[] = [
    [0, 2],
    [0, 1],
    [2, 3],
    [1, 4],
    [3, 5],
    [4, 6],
    [5, 6],
    [4, 7],
    [5, 8],
    [7, 9],
  ];
  const box = [-1, -1, -1, -1, 0, 0, 0, -1, -1, -1];
  expect(crossings(calls, box, [-1])).toBe(0);
  expect(crossings(calls, box, [-1], 2)).toBe(0);
});

it("orders separate parts of a box like the lines around it", () => {
  // 0 uses 1, 2 and 3, which lead into the box in the other order, as it has its nodes
  const edges: Edge[] = [
    [0, 1],
    [0, 2],
    [0, 3],
    [1, 6],
    [2, 5],
    [3, 4],
  ];
  expect(crossings(edges, [-1, -1, -1, -1, 0, 0, 0], [-1])).toBe(0);
});

it("orders the inside of boxes in boxes like the lines around them", () => {
  // 1, 2 and 3 lead through box 0 into box 1, whose nodes share 7
  const edges: Edge[] = [
    [0, 1],
    [0, 2],
    [0, 3],
    [1, 6],
    [2, 5],
    [3, 4],
    [4, 7],
    [5, 7],
    [6, 7],
  ];
  expect(crossings(edges, [-1, -1, -1, -1, 1, 1, 1, 1], [-1, 0])).toBe(0);
});

it("keeps what cannot be drawn without crossings", () => {
  // 0 and 1 lead to both nodes of the box
  const edges: Edge[] = [
    [0, 2],
    [0, 3],
    [1, 2],
    [1, 3],
  ];
  expect(crossings(edges, [-1, -1, 0, 0], [-1])).toBe(1);
});
