import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { roleOfOp } from "./layers";
import { type ReduceInput, reduce, type Visible } from "./reduce";
import { groupTree } from "./tree";

/** Nodes as "namespace:op", edges as pairs of node numbers. */
function visible(
  nodes: string[],
  edges: [number, number][],
  open: string[],
  rest: { plumbing?: number[]; keep?: number[] } = {},
): Visible {
  const input: ReduceInput = {
    source: edges.map(([a]) => a),
    target: edges.map(([, b]) => b),
    tree: groupTree(nodes.map((node) => node.split(":")[0])),
    open: new Set(open),
  };
  if (rest.plumbing) {
    const flag = nodes.map((_, v) => (rest.plumbing?.includes(v) ? 1 : 0));
    input.plumbing = { flag, keep: new Set(rest.keep) };
  }
  return reduce(input);
}

const ends = ({ edges }: Visible) => edges.map(({ source, target }) => [source, target]);

describe("reduce", () => {
  // 0 (loss) -> 1 (a) -> 2 (a/b) -> 4 (x);  1 -> 3 (a) -> 4 twice
  const nodes = ["", "a", "a/b", "a", ""];
  const edges: [number, number][] = [
    [0, 1],
    [1, 2],
    [1, 3],
    [2, 4],
    [3, 4],
    [3, 4],
  ];

  it("makes a closed group one node, merges its edges and drops those inside", () => {
    const result = visible(nodes, edges, []);
    expect(result.nodes.map(({ group, size }) => [group >= 0, size])).toEqual([
      [false, 1],
      [true, 4 - 1],
      [false, 1],
    ]);
    expect(ends(result)).toEqual([
      [0, 1],
      [1, 2],
    ]);
    expect(result.edges[1]).toMatchObject({ count: 3, edges: [3, 4, 5], folded: [] });
    expect(Array.from(result.edgeOf)).toEqual([0, -1, -1, 1, 1, 1]);
    expect(Array.from(result.nodeOf)).toEqual([0, 1, 1, 1, 2]);
  });

  it("shows a group's content only when all around it is open", () => {
    expect(visible(nodes, edges, ["a/b"]).nodes.length).toBe(3);
    const inner = visible(nodes, edges, ["a"]);
    expect(inner.nodes.map(({ group }) => group >= 0)).toEqual([false, false, true, false, false]);
    const all = visible(nodes, edges, ["a", "a/b"]);
    expect(all.nodes.map(({ node }) => node)).toEqual([0, 1, 2, 3, 4]);
    expect(all.nodes[2].container).toBe(2);
    // Two edges between the same plain nodes stay two.
    expect(ends(all)).toEqual(edges);
  });

  it("draws both ways between groups that feed each other", () => {
    const result = visible(
      ["a", "b", "a"],
      [
        [0, 1],
        [1, 2],
      ],
      [],
    );
    expect(ends(result)).toEqual([
      [0, 1],
      [1, 0],
    ]);
  });

  it("accounts for every node and edge exactly once", () => {
    const part = fc.constantFrom("", "a", "a/b", "a/b/c", "d", "d/e");
    const random = fc.record({
      names: fc.array(part, { minLength: 1, maxLength: 25 }),
      pairs: fc.array(fc.tuple(fc.nat(24), fc.nat(24)), { maxLength: 50 }),
      open: fc.subarray(["a", "a/b", "a/b/c", "d", "d/e"]),
      flag: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 25, maxLength: 25 }),
    });
    fc.assert(
      fc.property(random, ({ names, pairs, open, flag }) => {
        const kept = pairs.filter(([a, b]) => a < b && b < names.length);
        const input = { source: kept.map(([a]) => a), target: kept.map(([, b]) => b) };
        const tree = groupTree(names);
        const result = reduce({ ...input, tree, open: new Set(open), plumbing: { flag } });
        const folded = result.edges.flatMap((edge) => edge.folded);
        const shown = names.flatMap((_, v) => (result.nodeOf[v] >= 0 ? [v] : []));
        expect([...folded, ...shown].sort((a, b) => a - b)).toEqual(names.map((_, v) => v));
        const carried = result.edges.flatMap((edge) => edge.edges).sort((a, b) => a - b);
        expect(carried).toEqual(kept.flatMap((_, e) => (result.edgeOf[e] >= 0 ? [e] : [])));
        expect(result.edges.every(({ source, target }) => source !== target)).toBe(true);
        const isOpen = (name: string) =>
          name === "" ||
          name.split("/").every((_, i, all) => open.includes(all.slice(0, i + 1).join("/")));
        names.forEach((name, v) => {
          const at = result.nodeOf[v];
          if (at >= 0 && isOpen(name) && !flag[v])
            expect(result.nodes[at]).toMatchObject({ group: -1, node: v });
          if (!isOpen(name)) expect(result.nodes[at].group).toBeGreaterThan(0);
        });
      }),
      { numRuns: 300 },
    );
  });
});

describe("folding plumbing", () => {
  // 0 -> 1 (view) -> 2 (cast) -> 3;  0 -> 3;  3 -> 4 (view, two edges down) -> 5, 6
  const nodes = ["", "", "a", "", "", "", ""];
  const edges: [number, number][] = [
    [0, 1],
    [1, 2],
    [2, 3],
    [0, 3],
    [3, 4],
    [4, 5],
    [4, 6],
  ];
  const plumbing = [1, 2, 4];

  it("folds a run into its edge, across the border of an open group", () => {
    const result = visible(nodes, edges, ["a"], { plumbing });
    expect(result.edges[0]).toMatchObject({ edges: [0, 1, 2], folded: [1, 2], count: 1 });
    expect(ends(result).slice(0, 2)).toEqual([
      [0, 1],
      [0, 1],
    ]);
    expect(result.nodes.map(({ node }) => node)).toEqual([0, 3, 4, 5, 6]);
    expect(result.nodeOf[1]).toBe(-1);
  });

  it("leaves what is in a closed group to the group, and shows what was opened", () => {
    expect(visible(nodes, edges, [], { plumbing }).nodes[1].group).toBeGreaterThan(0);
    const opened = visible(nodes, edges, ["a"], { plumbing, keep: [1, 2] });
    expect(opened.nodes.length).toBe(7);
  });

  it("gives plumbing that leads from a closed box back into it to the box", () => {
    const result = visible(
      ["a", "", "a"],
      [
        [0, 1],
        [1, 2],
      ],
      [],
      { plumbing: [1] },
    );
    expect([result.nodes.length, result.edges.length, result.nodeOf[1]]).toEqual([1, 0, 0]);
  });
});

describe("a cross entropy", () => {
  const ops = ["NllLossBackward0", "LogSoftmaxBackward0", "AddmmBackward0", "AddBackward0"];
  const entropy = (edges: [number, number][], keep: number[] = []) =>
    reduce({
      source: edges.map(([a]) => a),
      target: edges.map(([, b]) => b),
      tree: groupTree(ops.map(() => "")),
      open: new Set(),
      plumbing: {
        flag: ops.map(() => 0),
        keep: new Set(keep),
        layers: { role: ops.map((op, i) => roleOfOp("op", op, i === 0)), operations: [4] },
      },
    });

  it("is one node: a likelihood and the log softmax that only it uses", () => {
    const chain: [number, number][] = [
      [0, 1],
      [1, 2],
    ];
    const { nodes, nodeOf } = entropy(chain);
    expect(nodes.map(({ node, also }) => [node, also])).toEqual([
      [0, [1]],
      [2, undefined],
      [3, undefined],
    ]);
    expect([...nodeOf]).toEqual([0, 0, 1, 2]);
    expect(entropy([...chain, [3, 1]]).nodes).toHaveLength(4);
    expect(entropy(chain, [1]).nodes).toHaveLength(4);
  });
});
