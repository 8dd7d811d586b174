import { describe, expect, it } from "vitest";
import { layered } from "../testing/layout_graphs";
import { makeGraph } from "./graph";
import { spine, withoutBentEnds } from "./spine";

describe("spine", () => {
  it("pauses where the longest paths part", () => {
    const graph = layered(5, [
      [0, 1],
      [0, 2],
      [1, 3],
      [2, 3],
      [3, 4],
    ]);
    expect(Array.from(spine(graph))).toEqual([1, 0, 0, 1, 1]);
  });

  it("prefers the path with more nodes to a skip", () => {
    const graph = layered(3, [
      [0, 1],
      [1, 2],
      [0, 2],
    ]);
    expect(Array.from(spine(graph).subarray(0, 3))).toEqual([1, 1, 1]);
  });
});

describe("the spine at a box whose lines are not level", () => {
  /** Nodes in a row: one, two, a box of this reach with these places of its lines out, another, the last. */
  const marked = (places: readonly number[], reach: number, width = 20) => {
    const edges: [number, number][] = [
      [0, 1],
      [1, 2],
      ...places.map((): [number, number] => [2, 3]),
    ];
    const of = layered(5, [
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 4],
    ]);
    edges.push([3, 4]);
    const [source, target] = [0, 1].map((end) => Int32Array.from(edges, (edge) => edge[end]));
    const half = Float64Array.of(20, 20, reach, width, width);
    const border = {
      ...{ isTop: new Uint8Array(0), wish: new Float64Array(0) },
      ...{ lean: new Float64Array(5), nominal: new Float64Array(5) },
      leave: Float64Array.from(edges, ([from], e) => (from === 2 ? places[e - 2] : Number.NaN)),
      arrive: new Float64Array(edges.length).fill(Number.NaN),
    };
    const graph = makeGraph(5, source, target);
    const reaches = { left: half, right: half };
    return withoutBentEnds(graph, of, spine(of), reaches, border).join("");
  };

  it("ends there", () => {
    expect(marked([-100], 150)).toBe("11100");
    expect(marked([-110, -90], 150)).toBe("11100");
  });

  it("goes on if a line is level, or the rest would reach beyond the box", () => {
    expect(marked([0], 150)).toBe("11111");
    expect(marked([0, -100], 150)).toBe("11111");
    expect(marked([-100], 150, 60)).toBe("11111");
  });
});
