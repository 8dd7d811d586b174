import { expect, it } from "vitest";
import { judge } from "../testing/drawn";
import { layout } from "./index";

/** The crossings of a picture of nodes of 40 by 30 px; `edges` as "0>1 0>2". */
function crossings(edges: string, of: number[], parent: number[]): number {
  const ends = edges.split(" ").map((edge) => edge.split(">").map(Number));
  const [source, target] = [ends.map(([a]) => a), ends.map(([, b]) => b)];
  const [width, height] = [of.map(() => 40), of.map(() => 30)];
  const input = { n: of.length, source, target, width, height, boxes: { of, parent } };
  const placed = layout(input);
  return judge({ ...placed, width, height, source, target, start: placed.pointStart }).crossings;
}

it("orders two calls in a box like the lines to them", () => {
  // 0 uses the box through 1 and 2; the calls 4 and 3 share 5
  expect(crossings("0>1 0>2 1>4 2>3 3>5 4>5", [-1, -1, -1, 0, 0, 0], [-1])).toBe(0);
});

it("orders separate parts of a box like the lines around it", () => {
  // 0 uses 1, 2 and 3, which lead into the box in the other order, as it has its nodes
  expect(crossings("0>1 0>2 0>3 1>6 2>5 3>4", [-1, -1, -1, -1, 0, 0, 0], [-1])).toBe(0);
});

it("orders the inside of boxes in boxes like the lines around them", () => {
  // 1, 2 and 3 lead through box 0 into box 1, whose nodes share 7
  const edges = "0>1 0>2 0>3 1>6 2>5 3>4 4>7 5>7 6>7";
  expect(crossings(edges, [-1, -1, -1, -1, 1, 1, 1, 1], [-1, 0])).toBe(0);
});

it("keeps what cannot be drawn without crossings", () => {
  // 0 and 1 lead to both nodes of the box
  expect(crossings("0>2 0>3 1>2 1>3", [-1, -1, 0, 0], [-1])).toBe(1);
});
