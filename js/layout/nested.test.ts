import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as shapes from "../testing/layout_graphs";
import { defects, type NestedInput } from "../testing/nested_defects";
import { layout } from "./index";

/** Random graphs in random boxes; edges run from lower to higher numbers, boxes may form cycles. */
const nested: fc.Arbitrary<NestedInput> = fc
  .record({ n: fc.integer({ min: 1, max: 30 }), boxes: fc.integer({ min: 0, max: 8 }) })
  .chain(({ n, boxes }) =>
    fc
      .record({
        pairs: fc.array(fc.tuple(fc.nat(n - 1), fc.nat(n - 1)), { maxLength: 2 * n }),
        width: fc.array(fc.integer({ min: 0, max: 150 }), { minLength: n, maxLength: n }),
        height: fc.array(fc.integer({ min: 0, max: 60 }), { minLength: n, maxLength: n }),
        shared: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: n, maxLength: n }),
        box: fc.array(fc.integer({ min: -1, max: boxes - 1 }), { minLength: n, maxLength: n }),
        outer: fc.array(fc.nat(100), { minLength: boxes, maxLength: boxes }),
        titleWidth: fc.array(fc.integer({ min: 0, max: 300 }), {
          minLength: boxes,
          maxLength: boxes,
        }),
      })
      .map(({ pairs, outer, box, titleWidth, ...rest }) => {
        const kept = pairs.filter(([a, b]) => a !== b);
        return {
          n,
          source: kept.map(([a, b]) => Math.min(a, b)),
          target: kept.map(([a, b]) => Math.max(a, b)),
          boxes: { of: box, parent: outer.map((k, b) => (k % (b + 1)) - 1), titleWidth },
          ...rest,
        };
      }),
  );

describe("layout with boxes", () => {
  it("nests boxes, keeps everything apart and takes lines from node to node", () => {
    fc.assert(
      fc.property(nested, (input) => {
        expect(defects(input, layout(input))).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  /** Nodes of 40 by 30 px. */
  function small(
    edges: [number, number][],
    box: number[],
    boxParent: number[],
    more: Partial<NestedInput> = {},
  ): NestedInput {
    const n = box.length;
    return {
      n,
      source: edges.map(([a]) => a),
      target: edges.map(([, b]) => b),
      width: new Array(n).fill(40),
      height: new Array(n).fill(30),
      boxes: { of: box, parent: boxParent },
      ...more,
    };
  }

  it("gives the same picture for the same input, and leaves the input alone", () => {
    fc.assert(
      fc.property(nested, (input) => {
        const before = JSON.stringify(input);
        const { route: _a, ...first } = layout(input);
        const { route: _b, ...second } = layout(input);
        expect(first).toEqual(second);
        expect(JSON.stringify(input)).toBe(before);
      }),
      { numRuns: 50 },
    );
  });

  it("gives the same picture with a cache from other pictures", () => {
    const cache = new Map();
    fc.assert(
      fc.property(nested, fc.constantFrom(20, 30), (input, nodeGap) => {
        const { route: _a, ...cached } = layout(input, { nodeGap, cache });
        const { route: _b, ...again } = layout(input, { nodeGap, cache });
        const { route: _c, ...fresh } = layout(input, { nodeGap });
        expect(cached).toEqual(fresh);
        expect(again).toEqual(fresh);
      }),
      { numRuns: 100 },
    );
    expect(cache.size).toBeGreaterThan(50);
    const pair = small([], [0, 0], [-1]);
    const widths = [20, 30].map((nodeGap) => layout(pair, { nodeGap, rankGap: 0, cache }).width);
    expect(widths[1]).toBe(widths[0] + 10);
  });

  it("draws a chain through boxes in boxes as one vertical line", () => {
    // 0 -> [1 -> [2] -> 3] -> 4
    const edges: [number, number][] = [
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
    ];
    const result = layout(small(edges, [-1, 0, 1, 0, -1], [-1, 0]));
    expect(new Set(result.x).size).toBe(1);
    expect(new Set(result.points.filter((_, i) => i % 2 === 0)).size).toBe(1);
    expect(edges.map((_, e) => result.route(e).length)).toEqual([2, 2, 2, 2]);
  });

  it("puts what leads into a box above the place where its line enters", () => {
    // 0 -> [2, 3] <- 1
    const edges: [number, number][] = [
      [0, 2],
      [1, 3],
    ];
    const { x } = layout(small(edges, [-1, -1, 0, 0], [-1]));
    expect([x[0], x[1]]).toEqual([x[2], x[3]]);
  });

  it("draws what a box calls twice with one line up", () => {
    // [0 -> .. 2] around [1]: the first box leads into the second and back
    const result = layout(
      small(
        [
          [0, 1],
          [1, 2],
        ],
        [0, 1, 0],
        [-1, -1],
      ),
    );
    expect(Array.from(result.backward)).toEqual([0, 1]);
    const [start, end] = [result.route(1)[0], result.route(1).at(-1) as [number, number]];
    expect(start).toEqual([expect.any(Number), result.y[1] - 15]);
    expect(end).toEqual([expect.any(Number), result.y[2] + 15]);
  });

  it("draws a shared leaf in the box of every node that uses it", () => {
    // [0], [1] and 2 use 3, which lies in a box of its own
    const result = layout(
      small(
        [
          [0, 3],
          [1, 3],
          [2, 3],
        ],
        [0, 1, -1, 2],
        [-1, -1, -1],
        { shared: [0, 0, 0, 1] },
      ),
    );
    expect(Array.from(result.owner)).toEqual([0, 1, 2, 3, 3, 3]);
    expect(Array.from(result.boxes.of)).toEqual([0, 1, -1, 0, 1, -1]);
    expect(Array.from(result.boxes.height)).toEqual([28 + 30 + 40 + 30 + 16, 144, 28 + 16]);
  });

  it("leaves a title its room", () => {
    const result = layout(
      { ...small([], [0], [-1]), boxes: { of: [0], parent: [-1], titleWidth: [200] } },
      { header: 50 },
    );
    expect([result.boxes.width[0], result.boxes.height[0]]).toEqual([200, 50 + 30 + 16]);
    expect(result.x[0]).toBe(100);
  });

  it.each(
    Object.entries({ lenet: shapes.lenet(), resnet: shapes.resnet(3), lstm: shapes.lstm(3) }),
  )("has the rows of the plain layout of %s without boxes", (_, sketch) => {
    const input = sketch.input();
    const result = layout({
      ...input,
      boxes: { of: new Array(input.n).fill(-1), parent: [] },
    });
    const plain = layout(input);
    expect(Array.from(result.rank)).toEqual(Array.from(plain.rank));
    expect(Array.from(result.edgeTarget)).toEqual(Array.from(plain.edgeTarget));
  });

  it("wraps what is tall, in boxes and outside, with every line whole", () => {
    fc.assert(
      fc.property(nested, fc.integer({ min: 3, max: 12 }), (input, length) => {
        // A chain through copies of the random picture, in a box of its own.
        const n = input.n * length;
        const copies = Array.from({ length }, (_, k) => k);
        const every = (values: ArrayLike<number>, add: number) =>
          copies.flatMap((k) =>
            Array.from(values, (v) => (v < 0 ? 0 : v + k * add + (add ? 1 : 0))),
          );
        const boxes = input.boxes.parent.length;
        const chain = {
          n,
          source: every(input.source, input.n).map((v) => v - 1),
          target: every(input.target, input.n).map((v) => v - 1),
          width: every(input.width, 0),
          height: every(input.height, 0),
          boxes: {
            of: every(input.boxes.of, boxes),
            parent: [-1, ...every(input.boxes.parent, boxes)],
          },
        };
        for (let v = 1; v < n; v++) {
          chain.source.push(v - 1);
          chain.target.push(v);
        }
        const wrapped = layout(chain, { aspect: 2 });
        expect(defects(chain, wrapped, { isWrapped: true })).toEqual([]);
      }),
      { numRuns: 30 },
    );
  });

  it("takes boxes 300 deep", () => {
    const boxParent = Array.from({ length: 300 }, (_, b) => b - 1);
    const result = layout(small([[0, 1]], [299, -1], boxParent));
    expect(result.boxes.left[299]).toBe(299 * 16);
    expect(result.route(0).length).toBe(2);
  });

  it("takes boxes that form a cycle", () => {
    const cycle: [number, number][] = [
      [0, 1],
      [1, 0],
    ];
    expect(() => layout(small(cycle, [0, 0], [-1]))).not.toThrow();
  });
});

it("wraps the contents of boxes without what is outside", () => {
  const input = {
    n: 12,
    source: Array.from({ length: 11 }, (_, v) => v),
    target: Array.from({ length: 11 }, (_, v) => v + 1),
    width: Array(12).fill(60),
    height: Array(12).fill(80),
    boxes: { of: [-1, ...Array(11).fill(0)], parent: [-1] },
  };
  const wrap = { aspect: 10, long: 400 };
  const isAbove = ({ y, boxes }: ReturnType<typeof layout>) => y[0] + 40 <= boxes.top[0];
  const both = layout(input, wrap);
  const inside = layout(input, { ...wrap, wrapsWhole: false });
  expect([isAbove(both), isAbove(inside)]).toEqual([false, true]);
  expect(inside.boxes.width[0]).toBeGreaterThan(2 * 60);
});
