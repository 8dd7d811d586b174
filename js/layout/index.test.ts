import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defects } from "../testing/layout_defects";
import * as shapes from "../testing/layout_graphs";
import { layout } from "./index";
import type { LayoutInput } from "./types";

/** Random graphs with edges from higher to lower numbers; parallel edges are allowed. */
const graphs: fc.Arbitrary<LayoutInput> = fc.integer({ min: 1, max: 40 }).chain((n) =>
  fc
    .record({
      edges: fc.array(fc.tuple(fc.nat(n - 1), fc.nat(n - 1)), { maxLength: 2 * n }),
      width: fc.array(fc.double({ min: 0, max: 150, noNaN: true }), { minLength: n, maxLength: n }),
      height: fc.array(fc.double({ min: 0, max: 60, noNaN: true }), { minLength: n, maxLength: n }),
      shared: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: n, maxLength: n }),
    })
    .map(({ edges, width, height, shared }) => {
      const kept = edges.filter(([a, b]) => a !== b);
      return {
        n,
        source: kept.map(([a, b]) => Math.max(a, b)),
        target: kept.map(([a, b]) => Math.min(a, b)),
        width,
        height,
        shared,
      };
    }),
);

const named: Record<string, LayoutInput> = Object.fromEntries(
  Object.entries({
    chain: shapes.chain(30),
    diamond: shapes.diamond(),
    affine: shapes.affine(),
    square: shapes.square(),
    fan: shapes.fan(12),
    mlp: shapes.mlp(3),
    lenet: shapes.lenet(),
    resnet: shapes.resnet(8),
    unet: shapes.unet(4),
    rnn: shapes.rnn(20),
    lstm: shapes.lstm(20),
    gru: shapes.gru(20),
    rk4: shapes.rk4(8),
    transformer: shapes.transformer(4),
    densenet: shapes.densenet(14),
    doubleBackward: shapes.doubleBackward(6),
    random: shapes.randomLayered(300, 15, 7),
  }).map(([name, sketch]) => [name, sketch.input()]),
);

describe("layout", () => {
  it("draws random graphs down, without overlaps, without lines through boxes", () => {
    fc.assert(
      fc.property(graphs, (input) => {
        expect(defects(input, layout(input))).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it.each(Object.keys(named))(
    "draws %s down, without overlaps, without lines through boxes",
    (name) => {
      expect(defects(named[name], layout(named[name]))).toEqual([]);
    },
  );

  it("gives the same picture for the same input, and leaves the input alone", () => {
    fc.assert(
      fc.property(graphs, (input) => {
        const before = JSON.stringify(input);
        const { route: _a, ...first } = layout(input);
        const { route: _b, ...second } = layout(input);
        expect(first).toEqual(second);
        expect(JSON.stringify(input)).toBe(before);
      }),
      { numRuns: 50 },
    );
  });

  it("reads only the lengths and values of typed and plain arrays", () => {
    const plain = named.lstm;
    const typed = {
      ...plain,
      source: Uint32Array.from(plain.source),
      target: Array.from(plain.target),
      width: Array.from(plain.width),
    };
    expect(layout(typed).points).toEqual(layout(plain).points);
  });

  it("keeps the input order of nodes that are alike", () => {
    const { x } = layout(named.fan);
    for (let v = 1; v < 12; v++) expect(x[v]).toBeGreaterThan(x[v - 1]);
  });

  it("draws a chain as one vertical line", () => {
    const { x, points } = layout(named.chain);
    expect(new Set(x).size).toBe(1);
    expect(new Set(points.filter((_, i) => i % 2 === 0)).size).toBe(1);
  });

  it("draws a diamond symmetrically", () => {
    const { x, y } = layout({ ...named.diamond, width: [50, 60, 60, 60, 60] });
    const [leaf, left, right, sub, pow] = x;
    expect([leaf, sub]).toEqual([pow, pow]);
    expect(pow - left).toBe(right - pow);
    expect(y[1]).toBe(y[2]);
  });

  it("draws two edges between the same nodes as two lines", () => {
    const result = layout(named.square);
    const [, first, second] = [0, 1, 2].map((edge) => result.route(edge));
    expect(second[0][0] - first[0][0]).toBeGreaterThanOrEqual(8);
    expect(second[1][0] - first[1][0]).toBeGreaterThanOrEqual(8);
  });

  it("draws a shared leaf once per use, right below it", () => {
    //  0   1      0   1
    //   \ /   ->  |   |
    //    2        2   3 (owner 2)
    const result = layout({
      n: 3,
      source: [0, 1],
      target: [2, 2],
      width: [40, 40, 40],
      height: [30, 30, 30],
      shared: [0, 0, 1],
    });
    expect(Array.from(result.owner)).toEqual([0, 1, 2, 2]);
    expect(Array.from(result.edgeTarget)).toEqual([2, 3]);
    expect([result.x[2], result.x[3]]).toEqual([result.x[0], result.x[1]]);
  });

  it("packs components side by side with the roots on top", () => {
    const result = layout({
      n: 5,
      source: [0, 2],
      target: [1, 3],
      width: [40, 40, 40, 40, 40],
      height: [30, 30, 30, 30, 30],
    });
    expect(result.y[0]).toBe(result.y[2]);
    expect(result.y[0]).toBe(result.y[4]);
    expect(result.x[0]).toBeLessThan(result.x[2]);
  });

  it("works without nodes, and with a self-loop as a hook", () => {
    const none = layout({ n: 0, source: [], target: [], width: [], height: [] });
    expect([none.width, none.height, none.x.length]).toEqual([0, 0, 0]);
    const loop = layout({ n: 1, source: [0], target: [0], width: [40], height: [20] });
    expect(loop.route(0).length).toBe(4);
    expect(loop.width).toBeGreaterThan(40);
  });

  it("takes a chain of 50,000 nodes", () => {
    const { y } = layout(shapes.chain(50_000).input());
    expect(y[0]).toBeGreaterThan(y[49_999]);
  });
});

describe("an edge without a node", () => {
  it("is an error", () => {
    const input = { n: 2, source: [1], target: [-1], width: [9, 9], height: [9, 9] };
    expect(() => layout(input)).toThrow("Edge 0 joins 1 and -1; the nodes are 0 to 1.");
    const boxes = { of: [0, 0], parent: [-1] };
    expect(() => layout({ ...input, boxes })).toThrow("Edge 0 joins 1 and -1");
  });
});
