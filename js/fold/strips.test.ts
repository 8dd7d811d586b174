import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { transformer } from "../demo/deep_models";
import type { Plan } from "../scene/plan";
import { residualNet } from "../testing/residual";
import { translator } from "../testing/translator";
import { estimate } from "../text/measure";
import {
  closeGroup,
  type Folding,
  firstFolding,
  isSameFolding,
  openBlock,
  openGroup,
  setPlumbing,
  toDepth,
} from "./folding";
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
  known: { kind?: (path: string) => string | null; sizes?: (path: string) => number[] } = {},
): number[] {
  const tree = groupTree(nodes.map((node) => node.split(":")[0]));
  const { kind = () => null, sizes = () => [1] } = known;
  const graph = {
    source: edges.map(([a]) => a),
    target: edges.map(([, b]) => b),
    tree,
    op: nodes.map((node) => node.split(":")[1]),
  };
  const shape: string[] = [];
  const found = repeatedBlocks(graph, {
    kind: tree.path.map(kind),
    leaves: tree.path.map((path) => sizes(path).map((size) => shape.push(`${size}`) - 1)),
    numbers: tree.path.map((path) => sizes(path).reduce((sum, size) => sum + size, 0)),
    shapeOf: (leaf) => shape[leaf],
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
    expect(runs(nodes, edges, { sizes: () => [] })).toEqual([50]);
    const second = steps("loop 2 step", 8);
    expect(runs(second.nodes, second.edges, { sizes: () => [] })).toEqual([8]);
  });

  it("need an order in time", () => {
    const { nodes } = steps("step", 50);
    expect(runs(nodes, [], { sizes: () => [] })).toEqual([]);
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

it("names the one block that has more parameters than the others", () => {
  const grouped = groupedGraph(translator(6));
  const plan = foldedPlan(grouped, toDepth(grouped.tree, firstFolding(grouped.tree), 2));
  const strips = plan.nodes.flatMap(({ strip }) => strip ?? []);
  expect(strips.map(({ blocks }) => blocks.length)).toEqual([6, 6]);
  for (const { larger } of strips) expect(larger).toEqual({ name: "0", by: 16 });
  expect(strips.map(({ each }) => each).sort()).toEqual([128, 192]);
});

describe("the parameters of a loop and of the module around it", () => {
  /** A loop in a module, after a product outside of the loop. */
  const loop = (loopWeights: number, names: (name: string) => string | null) => {
    const g = new Builder();
    g.namespace = "net/rnn";
    const input = g.leaf(names("rnn.input"), [3]);
    let h = g.op("MmBackward0", [3], { self: g.leaf("x", [3]), mat2: input });
    const weights = Array.from({ length: loopWeights }, (_, i) => g.leaf(names(`rnn.w${i}`), [2]));
    for (let step = 0; step < 5; step++) {
      g.namespace = `net/rnn/step ${step}`;
      for (const weight of weights) h = g.op("MulBackward0", [3], { self: h, other: weight });
    }
    g.namespace = "net/rnn";
    const graph = g.graph([g.op("SumBackward0", [], { self: h }), "loss"]);
    const grouped = groupedGraph(graph);
    const open = new Set(["net", "net/rnn"]);
    const plan = foldedPlan(grouped, { ...firstFolding(grouped.tree), open });
    const strip = plan.nodes.find(({ strip }) => strip)?.strip;
    const leaves = plan.nodes.flatMap(({ id }) => (graph.nodes[id].kind === "leaf" ? id : []));
    return { strip, frames: plan.frames, leaves };
  };

  it("are counted in heads if they are many, each where it is used", () => {
    for (const names of [(name: string) => name, () => null]) {
      const { strip, frames, leaves } = loop(4, names);
      expect(strip?.shared).toBe(8);
      const inFrames = frames.map(({ path, counted }) => [path, counted]);
      expect(inFrames).toEqual([
        ["net", 0],
        ["net/rnn", 8 + 3],
      ]);
      expect(leaves.length).toBe(1);
    }
  });

  it("are drawn if they are few, or variables of the program", () => {
    expect(loop(3, (name) => name)).toMatchObject({ leaves: { length: 5 } });
    expect(loop(4, (name) => name.replace(".", "_"))).toMatchObject({ leaves: { length: 6 } });
  });
});

describe("an open list", () => {
  const framesOf = (blocks: number, open: string[]) => {
    const grouped = groupedGraph(translator(blocks));
    const { frames, nodes } = foldedPlan(grouped, {
      ...firstFolding(grouped.tree),
      open: new Set(open),
    });
    return { paths: frames.map(({ path }) => path), frames, nodes };
  };
  const half = ["encoder", "encoder/block"];

  it("has no frame where all in it have its name in their titles", () => {
    expect(framesOf(2, half).paths).toEqual(["encoder"]);
    const { paths, frames } = framesOf(2, [...half, "encoder/block/1"]);
    expect(paths.sort()).toEqual(["encoder", "encoder/block/1"]);
    const [inner] = frames.filter(({ path }) => path === "encoder/block/1");
    expect(frames[inner.parent].path).toBe("encoder");
  });

  it("has one with the sign that closes it where the reader has opened it", () => {
    const grouped = groupedGraph(translator(2));
    const first = { ...firstFolding(grouped.tree), open: new Set(["encoder"]) };
    const paths = (folding: Folding) => foldedPlan(grouped, folding).frames.map(({ path }) => path);
    const opened = openGroup(grouped.tree, first, "encoder/block");
    expect(paths(opened)).toEqual(["encoder", "encoder/block"]);
    expect(paths(openGroup(grouped.tree, opened, "encoder/block/1"))).toContain("encoder/block");
    const closed = closeGroup(opened, "encoder/block");
    expect(isSameFolding(closed, first)).toBe(true);
    expect(paths(toDepth(grouped.tree, opened, 2))).not.toContain("encoder/block");
  });

  it("has one around a strip beside something else", () => {
    const { paths } = framesOf(9, [...half, "encoder/block/4"]);
    expect(paths).toContain("encoder/block");
  });
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

  it("of one class may differ a little: in operations, and in small tables", () => {
    const { nodes, edges } = stack([..."rrgrrr"]);
    const kind = (path: string) => (/\/\d$/.test(path) ? "T5Block" : null);
    expect(runs(nodes, edges, { kind })).toEqual([6]);
    const first =
      (own: number[], others = [900, 100]) =>
      (path: string) =>
        /\/0$/.test(path) ? own : others;
    expect(runs(nodes, edges, { kind, sizes: first([900, 100, 15]) })).toEqual([6]);
    expect(runs(nodes, edges, { kind, sizes: first([100, 200, 900]) })).toEqual([6]);
    expect(runs(nodes, edges, { kind, sizes: first([900, 100, 500]) })).toEqual([5]);
    // As many elements in other shapes are another block.
    expect(runs(nodes, edges, { kind, sizes: first([990, 10]) })).toEqual([5]);
    expect(runs(nodes, edges, { kind, sizes: first([100, 100], [100, 99]) })).toEqual([5]);
    // Two sequences of layers may compute different things.
    expect(runs(nodes, edges, { kind: () => "Sequential" })).toEqual([]);
  });

  it("of one class may grow: half of their parameters have the same shapes", () => {
    const { nodes, edges } = alike(5);
    const grown = (inside: (i: number) => number[], kind = "_DenseLayer") =>
      runs(nodes, edges, {
        kind: (path) => (/\/\d$/.test(path) ? kind : null),
        sizes: (path) => (/\/\d$/.test(path) ? inside(Number(path.at(-1))) : []),
      });
    const dense = (i: number) => [64 + 32 * i, 64 + 32 * i, 128 * (2 + i), 128, 128, 36];
    expect(grown(dense)).toEqual([5]);
    expect(grown(dense, "Sequential")).toEqual([]);
    expect(grown((i) => [...dense(i), 64 * (i + 1)])).toEqual([]);
    expect(grown((i) => [64 * (i + 1), 64, 64])).toEqual([]); // a layer
  });

  it("are items of a list, or of one class", () => {
    const named = (nodes: string[]) => nodes.map((node) => node.replace(/layers\/(\d)/, "layer$1"));
    const { nodes, edges } = alike(4);
    expect(runs(named(nodes), edges)).toEqual([]);
    expect(runs(named(nodes), edges, { kind: () => "Block" })).toEqual([4]);
  });

  it("have parameters, and lead straight to each other", () => {
    const { nodes, edges } = alike(6);
    expect(runs(nodes, edges, { sizes: () => [] })).toEqual([]);
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
