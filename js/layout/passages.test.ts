import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeGraph } from "./graph";
import { backEdges } from "./nested";
import { topological } from "./rank";

function turned(n: number, edges: [number, number][]): number[] {
  const graph = makeGraph(
    n,
    Int32Array.from(edges, ([a]) => a),
    Int32Array.from(edges, ([, b]) => b),
  );
  return Array.from(
    backEdges(
      graph,
      Int32Array.from({ length: n }, (_, v) => v),
    ),
  );
}

describe("backEdges", () => {
  it("reverses nothing without a cycle", () => {
    //   2 -> 0 -> 1, 2 -> 1
    const edges: [number, number][] = [
      [2, 0],
      [0, 1],
      [2, 1],
    ];
    expect(turned(3, edges)).toEqual([0, 0, 0]);
  });

  it("turns the edge that leads back", () => {
    const edges: [number, number][] = [
      [0, 1],
      [1, 2],
      [2, 1],
      [2, 3],
    ];
    expect(turned(4, edges)).toEqual([0, 0, 1, 0]);
  });

  it("leaves no cycle, and turns no edge of a graph without one", () => {
    const edges = fc.array(fc.tuple(fc.nat(11), fc.nat(11)), { maxLength: 30 });
    fc.assert(
      fc.property(edges, (pairs) => {
        const kept = pairs.filter(([a, b]) => a !== b);
        const back = turned(12, kept);
        const [from, to] = [0, 1].map((end) =>
          Int32Array.from(kept, (pair, e) => pair[back[e] ? 1 - end : end]),
        );
        expect(() => topological(makeGraph(12, from, to))).not.toThrow();
        const down = kept.filter(([a, b]) => a > b);
        expect(turned(12, down)).toEqual(down.map(() => 0));
      }),
    );
  });
});
