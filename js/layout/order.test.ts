import { describe, expect, it } from "vitest";
import * as shapes from "../testing/layout_graphs";
import { layered, layeredSketch } from "../testing/layout_graphs";
import { followInput } from "./component";
import { crossings, greedySwitch, orderRanks, positions, sweep } from "./order";
import type { Layered } from "./rank";
import { reinsertRuns } from "./reinsert";

const count = (graph: Layered, order: Int32Array) =>
  crossings(graph, order, positions(graph, order));

describe("orderRanks", () => {
  it.each([
    ["an unrolled RNN", shapes.rnn(30)],
    ["an unrolled LSTM", shapes.lstm(10)],
    ["a long LSTM", shapes.lstm(200)],
    ["a Runge-Kutta loop", shapes.rk4(10)],
    ["a ResNet", shapes.resnet(8)],
    ["a U-Net", shapes.unet(4)],
    ["a transformer", shapes.transformer(6)],
    ["a double backward", shapes.doubleBackward(10)],
  ])("draws %s without crossings", (_, sketch) => {
    const graph = layeredSketch(sketch);
    expect(count(graph, orderRanks(graph)[0])).toBe(0);
  });

  it("draws a GRU with the three crossings per step that its gates need", () => {
    const graph = layeredSketch(shapes.gru(10));
    expect(count(graph, orderRanks(graph)[0])).toBeLessThanOrEqual(30);
  });

  it("finds the order of a wide mesh whose nodes come in none", () => {
    // Each node is joined to its lower and its lower right neighbour: a drawing without crossings exists.
    const [rows, columns] = [30, 30];
    const random = shapes.randomInts(9);
    const name = Array.from({ length: rows * columns }, (_, v) => v);
    for (let v = name.length - 1; v > 0; v--) {
      const w = random(v + 1);
      [name[v], name[w]] = [name[w], name[v]];
    }
    const edges: [number, number][] = [];
    for (let v = 0; v + columns < name.length; v++) {
      edges.push([name[v], name[v + columns]]);
      if ((v + 1) % columns > 0) edges.push([name[v], name[v + columns + 1]]);
    }
    const ranks = name.map((_, v) => Math.floor(name.indexOf(v) / columns));
    const graph = layered(name.length, edges, ranks);
    for (const order of orderRanks(graph)) expect(count(graph, order)).toBe(0);
  });

  it("keeps each node in its rank", () => {
    const graph = layeredSketch(shapes.randomLayered(400, 20, 3));
    for (const order of orderRanks(graph)) {
      expect(Array.from(order).sort((a, b) => a - b)).toEqual(Array.from(order.keys()));
      expect(order.every((v, i) => graph.rank[v] === graph.rank[graph.ranks.item[i]])).toBe(true);
    }
  });
});

describe("sweep", () => {
  it("sorts a rank by the mean place of the neighbours above", () => {
    //  0 1 2        0 1 2
    //   \ X    ->   |/| |
    //  3 4 5        5 4 3 is sorted by its parents: 0 | 0, 1 | 2
    const graph = layered(
      6,
      [
        [2, 3],
        [0, 4],
        [1, 4],
        [0, 5],
      ],
      [0, 0, 0, 1, 1, 1],
    );
    const order = Int32Array.of(0, 1, 2, 3, 4, 5);
    sweep(graph, order, positions(graph, order), true, false);
    expect(Array.from(order)).toEqual([0, 1, 2, 5, 4, 3]);
  });
});

describe("greedySwitch", () => {
  it("removes a crossing and leaves alone what gains nothing", () => {
    const graph = layered(
      4,
      [
        [0, 3],
        [1, 2],
      ],
      [0, 0, 1, 1],
    );
    const order = Int32Array.of(0, 1, 2, 3);
    greedySwitch(graph, order, positions(graph, order), 5);
    expect(count(graph, order)).toBe(0);
    const before = order.slice();
    greedySwitch(graph, order, positions(graph, order), 5);
    expect(order).toEqual(before);
  });
});

describe("reinsertRuns", () => {
  it("moves a whole line to the other side of a block", () => {
    //   0                0
    //  /|\              /|
    // 1 a 2            a 1 2     the line a-b from 0 to 5 lies between, and crosses 3-4;
    // | b |     ->     b | |     one rank at a time it could not leave
    // 3-+-4            | 3-4
    //   5              5
    const graph = layered(
      6,
      [
        [0, 1],
        [0, 2],
        [1, 3],
        [2, 3],
        [3, 4],
        [0, 5],
      ],
      [0, 1, 1, 2, 3, 4],
    );
    const order = graph.ranks.item.slice();
    const start = graph.ranks.start[1];
    order.set([1, 6, 2], start);
    const position = positions(graph, order);
    expect(count(graph, order)).toBeGreaterThan(0);
    reinsertRuns(graph, order, position, 10_000);
    expect(count(graph, order)).toBe(0);
    expect(position).toEqual(positions(graph, order));
  });
});

describe("followInput", () => {
  it("gives leaves of one parent the input's order, and turns a mirrored picture around", () => {
    //   0
    //  /|\
    // 1 2 3
    //   |
    //   4
    const graph = layered(5, [
      [0, 1],
      [0, 2],
      [0, 3],
      [2, 4],
    ]);
    expect(Array.from(followInput(graph, Int32Array.of(0, 3, 2, 1, 4)))).toEqual([0, 1, 2, 3, 4]);
    expect(Array.from(followInput(graph, Int32Array.of(0, 2, 3, 1, 4)))).toEqual([0, 2, 1, 3, 4]);
  });
});

describe("a known graph", () => {
  it("has the same orders, unless its effort is another", () => {
    const graph = layeredSketch(shapes.gru(3));
    expect(orderRanks(graph)).toBe(orderRanks({ ...graph }));
    const effort = { visits: 1, steps: 1, choices: 1 };
    expect(orderRanks(graph, effort)).not.toBe(orderRanks(graph));
  });
});
