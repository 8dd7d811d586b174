import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { transformer } from "../demo/deep_models";
import { foldedScene } from "../pipeline";
import type { Plan } from "../scene/plan";
import { residualNet } from "../testing/residual";
import { estimate } from "../text/measure";
import { firstFolding, openBlock, setPlumbing, toDepth } from "./folding";
import { foldedPlan, groupedGraph } from "./grouped_graph";
import { repeatedBlocks } from "./repeats";
import { groupTree } from "./tree";

/** Blocks of two linears in a row, each block wired to the next. */
function stack(activations: string[]) {
  const nodes = [":Loss"];
  const edges: [number, number][] = [];
  let last = 0;
  activations.forEach((activation, i) => {
    const first = nodes.push(`layers/${i}/up:Addmm`, `layers/${i}:${activation}`) - 2;
    nodes.push(`layers/${i}/down:Addmm`);
    edges.push([last, first], [first, first + 1], [first + 1, first + 2], [first, first + 2]);
    last = first + 2;
  });
  return { nodes, edges };
}

/** The runs in nodes as "namespace:op", as lengths. */
function runs(
  nodes: string[],
  edges: [number, number][],
  known: { kind?: (path: string) => string | null; numbers?: (path: string) => number } = {},
): number[] {
  const tree = groupTree(nodes.map((node) => node.split(":")[0]));
  const { kind = () => null, numbers = () => 1 } = known;
  const graph = {
    source: edges.map(([a]) => a),
    target: edges.map(([, b]) => b),
    tree,
    op: nodes.map((node) => node.split(":")[1]),
  };
  const found = repeatedBlocks(graph, {
    kind: tree.path.map(kind),
    numbers: tree.path.map(numbers),
  });
  return found.map((run) => run.length);
}

const alike = (count: number) => stack(Array.from({ length: count }, () => "Relu"));

describe("the steps of a loop", () => {
  const steps = (name: string, count: number) => ({
    nodes: Array.from({ length: count }, (_, i) => `${name} ${i}:Tanh`),
    edges: Array.from({ length: count - 1 }, (_, i): [number, number] => [i + 1, i]),
  });

  it("are repeated blocks, without parameters of their own", () => {
    const { nodes, edges } = steps("cell/step", 50);
    expect(runs(nodes, edges, { numbers: () => 0 })).toEqual([50]);
    const second = steps("loop 2 step", 8);
    expect(runs(second.nodes, second.edges, { numbers: () => 0 })).toEqual([8]);
  });

  it("need an order in time", () => {
    const { nodes } = steps("step", 50);
    expect(runs(nodes, [], { numbers: () => 0 })).toEqual([]);
  });
});

it("has the name of its group only where no frame has it", () => {
  const grouped = groupedGraph(transformer(6));
  const { tree } = grouped;
  const closed = toDepth(tree, firstFolding(tree), 2);
  const titlesIn = (plan: Plan) => plan.nodes.flatMap(({ strip }) => strip?.title ?? []);
  const [alone] = titlesIn(foldedPlan(grouped, closed));
  const [run] = grouped.runs;
  const opened = openBlock(tree, closed, run, tree.path[run[2]], 0);
  const plan = foldedPlan(grouped, opened);
  const around = plan.frames.map(({ path }) => path.split("/").at(-1));
  expect(tree.path[run[0]]).toContain(`${alone}/`);
  for (const title of titlesIn(plan)) expect(around).not.toContain(title);
});

describe("repeated blocks", () => {
  it("are four or more that are alike and in a row", () => {
    for (const count of [1, 2, 3, 4, 5, 40]) {
      const { nodes, edges } = alike(count);
      expect(runs(nodes, edges)).toEqual(count < 4 ? [] : [count]);
    }
  });

  it("part where operations or wiring differ, if their class is not known", () => {
    const odd = stack([..."rrrr", "g", ..."rrrrr"]);
    expect(runs(odd.nodes, odd.edges)).toEqual([4, 5]);
    const { nodes, edges } = alike(9);
    expect(
      runs(
        nodes,
        edges.filter((_, e) => e !== 4 * 4 + 3),
      ),
    ).toEqual([4, 4]);
  });

  it("of one class may differ a little: in operations, and in a small table", () => {
    const { nodes, edges } = stack([..."rrgrrr"]);
    const kind = (path: string) => (/\/\d$/.test(path) ? "T5Block" : null);
    expect(runs(nodes, edges, { kind })).toEqual([6]);
    const numbers = (extra: number) => (path: string) => (/\/0$/.test(path) ? 1000 + extra : 1000);
    expect(runs(nodes, edges, { kind, numbers: numbers(15) })).toEqual([6]);
    expect(runs(nodes, edges, { kind, numbers: numbers(500) })).toEqual([5]);
    // Two sequences of layers may compute different things.
    expect(runs(nodes, edges, { kind: () => "Sequential" })).toEqual([]);
  });

  it("are items of a list, or of one class", () => {
    const named = (nodes: string[]) => nodes.map((node) => node.replace(/layers\/(\d)/, "layer$1"));
    const { nodes, edges } = alike(4);
    expect(runs(named(nodes), edges)).toEqual([]);
    expect(runs(named(nodes), edges, { kind: () => "Block" })).toEqual([4]);
  });

  it("have parameters, and lead straight to each other", () => {
    const { nodes, edges } = alike(6);
    expect(runs(nodes, edges, { numbers: () => 0 })).toEqual([]);
    const between = edges.map(([a, b]): [number, number] =>
      a > 0 && nodes[a].includes("down") ? [nodes.length, b] : [a, b],
    );
    expect(runs([...nodes, ":Relu"], between)).toEqual([]);
  });

  it("are found at every level, in time linear in the graph", () => {
    const { nodes, edges } = alike(2000);
    expect(runs(nodes, edges)).toEqual([2000]);
  });
});

describe("a picture with strips", () => {
  const graph = transformer(6);
  const grouped = groupedGraph(graph);
  const { tree } = grouped;
  const run = grouped.runs[0];

  it("opens a block between what is left of its strip, with every node and edge in its place", () => {
    fc.assert(
      fc.property(fc.nat(5), fc.nat(3), fc.boolean(), (block, levels, hides) => {
        const path = tree.path[run[block]];
        const closed = setPlumbing(toDepth(tree, firstFolding(tree), 2), hides);
        const plan = foldedPlan(grouped, openBlock(tree, closed, run, path, levels));
        const left = [block, 5 - block];
        expect(plan.nodes.flatMap(({ strip }) => strip?.blocks.length ?? [])).toEqual(
          [...left].reverse().filter((count) => count > 1),
        );
        const links = plan.nodes.flatMap(({ strip }) => strip?.links ?? []);
        const folded = new Set([...plan.edges, ...links].flatMap((edge) => edge.folded));
        const isWithin = (frame: number): boolean =>
          frame >= 0 && (plan.frames[frame].path === path || isWithin(plan.frames[frame].parent));
        graph.nodes.forEach(({ id }) => {
          const isInBlock = tree.path[tree.groupOf[id]].startsWith(path);
          const at = plan.nodeOf?.[id] ?? -1;
          expect(at >= 0 || folded.has(id)).toBe(true);
          if (at >= 0) expect(isWithin(plan.nodes[at].frame)).toBe(isInBlock);
        });
        for (const { source, target } of plan.edges) {
          expect(plan.nodes[source]).toBeDefined();
          expect(plan.nodes[target]).toBeDefined();
          expect(source).not.toBe(target);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("draws what belongs to a sum with it, also in an open block", () => {
    const graph = residualNet(Array(6).fill("identity"));
    const blocks = groupedGraph(graph);
    const [alike] = blocks.runs;
    const first = firstFolding(blocks.tree);
    const closed = setPlumbing(toDepth(blocks.tree, first, 1), true);
    for (const g of alike) {
      const path = blocks.tree.path[g];
      const folding = openBlock(blocks.tree, closed, alike, path, 0);
      const scene = foldedScene(blocks, folding, "left", estimate);
      const sum = graph.nodes.find(
        ({ op, namespace }) => op === "AddBackward0" && namespace === path,
      );
      const shown = scene.nodes[scene.drawn[sum?.id ?? -1][0]];
      expect(shown.also?.map((id) => graph.nodes[id].op)).toEqual(["ReluBackward0"]);
      for (const id of shown.also ?? []) expect(scene.drawn[id]).toEqual([shown.index]);
      graph.nodes.forEach(({ id, kind }) => {
        if (kind === "leaf") expect(scene.drawn[id].length).toBeGreaterThan(0);
      });
    }
  });

  it("is one by one where most blocks are open, and without strips if that is asked for", () => {
    const hasStrip = (plan: Plan) => plan.nodes.some(({ strip }) => strip);
    for (let depth = 0; depth < 5; depth++) {
      const folding = toDepth(tree, firstFolding(tree), depth);
      expect(hasStrip(foldedPlan(grouped, folding))).toBe(depth === 2);
      expect(hasStrip(foldedPlan(grouped, { ...folding, foldsRepeats: false }))).toBe(false);
    }
  });
});
