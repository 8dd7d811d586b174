import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { firstFolding, setPlumbing, toDepth } from "../fold/folding";
import { foldedPlan, groupedGraph } from "../fold/grouped_graph";
import { DIRECTIONS, type Direction } from "../layout/direction";
import { residualNet, type Shortcut } from "../testing/residual";
import { translator } from "../testing/translator";
import { estimate, type Style } from "../text/measure";
import type { GraphModel } from "../wire";
import { boxOf } from "./find";
import { factsOf } from "./frame_facts";
import { overlap } from "./grid";
import { listedOf } from "./module_class";
import type { Scene } from "./scene";

const shortcuts = fc.array(fc.constantFrom<Shortcut>("identity", "view", "gate", "none"), {
  minLength: 1,
  maxLength: 5,
});

/** With the layers or whole blocks as tiles. */
function tiles(graph: GraphModel, depth = 2, direction: Direction = "left"): Scene {
  const grouped = groupedGraph(graph);
  const { tree } = grouped;
  const open = toDepth(tree, firstFolding(tree), depth).open;
  const hasMore = (path: string) => tree.path.some((other) => other.startsWith(`${path}/`));
  const folding = setPlumbing(
    { ...firstFolding(tree), open: new Set([...open].filter(hasMore)) },
    true,
  );
  return makeScene(graph, foldedPlan(grouped, folding), direction, estimate);
}

/** The words on lines, without the shapes of tensors. */
const labels = (scene: Scene) =>
  scene.edges.flatMap(({ label }) => (label && !label.text.startsWith("(") ? [label.text] : []));
const wordsOf = (scene: Scene, title: string) =>
  scene.nodes
    .map(({ shape }) => shape.texts.map(({ text }) => text))
    .find(([first]) => first === title);

describe("a tile", () => {
  it("says the window, its step and the channels, and below what it took in", () => {
    const scene = tiles(residualNet(["identity"]));
    expect(wordsOf(scene, "conv")).toEqual(["conv", "3×3 /2 · 8", "bn_conv · relu"]);
    expect(wordsOf(scene, "conv2")).toEqual(["conv2", "3×3 /2 · 8", "bn_conv2"]);
    const [tile] = scene.nodes.filter(({ shape }) => shape.texts[0]?.text === "conv");
    expect(tile.shape.tile).toMatchObject({ isLayer: true, rest: "584" });
  });

  it("says how many groups its own products have, if it is one number", () => {
    const shown = (...signs: string[]) => {
      const g = new Builder();
      let x = g.op("ExpBackward0", [8, 4], { self: g.leaf("x", [8, 4]) });
      g.namespace = "experts";
      for (const _ of signs)
        x = g.op("GroupedMmBackward0", [8, 4], { self: x, mat2: g.leaf("w", [3, 4, 4]) });
      g.namespace = "";
      const { nodes, ...graph } = g.graph([g.op("SumBackward0", [], { self: x }), "loss"]);
      let at = 0;
      const parts = nodes.map((node) =>
        node.op === "GroupedMmBackward0" ? { ...node, sign: signs[at++] } : node,
      );
      const modules = { namespaces: ["experts"], classes: [0], names: ["Experts"] };
      return wordsOf(tiles({ ...graph, nodes: parts, modules }), "experts")?.[1];
    };
    const of = (count: string) => `grouped mm, ${count}`;
    expect(shown(of("3 groups"), of("3 groups"))).toBe("Experts · 3 groups");
    expect(shown(of("1 group"), "silu")).toBe("Experts · 1 group");
    expect(shown(of("3 groups"), of("2 groups"))).toBe("Experts");
    expect(shown("grouped mm", "+, ×")).toBe("Experts");
  });

  it("says its shape if its class is its name", () => {
    const g = new Builder();
    const x = g.op("MulBackward0", [2, 16], { self: g.leaf("x", [2, 16]) });
    g.namespace = "dropout";
    const dropped = g.op("NativeDropoutBackward0", [2, 16], { input: x });
    g.namespace = "";
    const graph = g.graph([g.op("SumBackward0", [], { self: dropped }), "loss"]);
    const named = (name: string) => ({
      ...graph,
      modules: { namespaces: ["dropout"], classes: [0], names: [name] },
    });
    expect(wordsOf(tiles(named("Dropout")), "dropout")).toEqual(["dropout", "(2, 16)"]);
    expect(wordsOf(tiles(named("Mask")), "dropout")).toEqual(["dropout", "Mask"]);
  });

  it("says what a list holds: how many, and of which class if that is one", () => {
    const graph = translator(3);
    const classes = (one: string, last: string): GraphModel => {
      const paths = ["encoder/block", ...[0, 1, 2].map((i) => `encoder/block/${i}`)];
      const modules = {
        namespaces: paths,
        classes: [0, 1, 1, one === last ? 1 : 2],
        names: ["ModuleList", one, last],
      };
      return { ...graph, modules };
    };
    const words = (shown: GraphModel) =>
      tiles(shown, 1).nodes.flatMap(({ group, shape }) =>
        group?.paths[0] === "encoder/block" ? shape.texts.map(({ text }) => text) : [],
      );
    expect(words(classes("Block", "Block"))).toContain("3 × Block");
    expect(words(classes("Block", "Other"))).toContain("3 modules");
    expect(listedOf(classes("Block", "Other"), "encoder/block/0")).toBe("Block");
    expect(listedOf(graph, "encoder/block")).toBeNull();
  });

  it("says the value of an output in it", () => {
    const graph = residualNet(["identity"]);
    const nodes = graph.nodes.map((node) =>
      node.op === "MeanBackward0" ? { ...node, namespace: "loss_fn", value: 0.25 } : node,
    );
    const scene = tiles({ ...graph, nodes }, 1);
    expect(wordsOf(scene, "loss_fn")).toContain("0.25");
  });

  it("has all its words within it, none on another, whatever is in it", () => {
    fc.assert(
      fc.property(
        shortcuts,
        fc.nat(2),
        fc.constantFrom(...DIRECTIONS),
        (kinds, depth, direction) => {
          for (const { shape } of tiles(residualNet(kinds), depth, direction).nodes) {
            const { tile, width, height } = shape;
            if (!tile) continue;
            const rows = shape.texts.map(({ text, style, y }) => ({
              text,
              style: style as Style,
              y,
            }));
            if (tile.number !== null) rows.push({ text: tile.rest, style: "cell", y: tile.number });
            rows.sort((a, b) => a.y - b.y);
            rows.forEach(({ text, style, y }, i) => {
              expect(estimate(text, style)).toBeLessThanOrEqual(width);
              expect(Math.abs(y)).toBeLessThan(height / 2);
              if (i > 0) expect(y - rows[i - 1].y).toBeGreaterThan(11);
            });
          }
        },
      ),
      { numRuns: 20 },
    );
  });
});

describe("a sum between tiles", () => {
  it("is a sign in a circle, with the activation that follows it", () => {
    const graph = residualNet(["identity", "gate"]);
    const scene = tiles(graph);
    const round = scene.nodes.filter(({ shape }) => shape.sign === "round");
    expect(round.map(({ shape }) => shape.texts.map(({ text }) => text)).sort()).toEqual([
      ["+", "relu"],
      ["×"],
    ]);
    // Search finds the activation there.
    const [sum] = round.filter(({ also }) => also);
    for (const id of sum.also ?? []) {
      expect(graph.nodes[id].sign).toBe("relu");
      expect(scene.drawn[id]).toEqual([sum.index]);
    }
  });

  it("takes in nothing that others use, or that is shown on purpose", () => {
    const graph = residualNet(["identity", "identity"]);
    const relu = graph.nodes.findIndex(({ sign }) => sign === "relu");
    const grouped = groupedGraph(graph);
    const { tree } = grouped;
    const folding = setPlumbing(toDepth(tree, firstFolding(tree), 2), true);
    const kept = { ...folding, unfolded: new Set([relu]) };
    const shown = (plan: ReturnType<typeof foldedPlan>) =>
      plan.nodes.some(({ id, group }) => id === relu && group === null);
    expect(shown(foldedPlan(grouped, folding))).toBe(false);
    expect(shown(foldedPlan(grouped, kept))).toBe(true);
    // A second consumer of the sum.
    const sum = graph.edges.find(({ source }) => source === relu)?.target ?? -1;
    const more = { ...graph.edges[0], source: 0, target: sum };
    const shared = groupedGraph({ ...graph, edges: [...graph.edges, more] });
    expect(shown(foldedPlan(shared, folding))).toBe(true);
  });
});

describe("a residual", () => {
  it("is named once for each sum that gets a tensor itself and what was made of it", () => {
    fc.assert(
      fc.property(shortcuts, (kinds) => {
        const named = labels(tiles(residualNet(kinds))).filter((text) => text === "residual");
        expect(named.length).toBeLessThanOrEqual(
          kinds.filter((kind) => kind === "identity").length,
        );
        if (!kinds.includes("identity")) expect(named).toEqual([]);
      }),
      { numRuns: 20 },
    );
    expect(labels(tiles(residualNet(["identity", "identity", "gate", "view"])))).toEqual([
      "residual",
      "residual",
    ]);
  });

  it("is an identity where a module like it changes what is handed on past it", () => {
    const graph = residualNet(["identity", "downsample", "identity"]);
    expect(labels(tiles(graph))).toEqual(["identity", "identity"]);
  });

  it("has a name that lies on its own line, and on nothing else", () => {
    const scene = tiles(residualNet(["identity", "identity", "identity"]));
    for (const { label } of scene.edges) {
      if (!label) continue;
      const { x, y, width, height } = label;
      const place = {
        left: x - width / 2,
        top: y - height / 2,
        right: x + width / 2,
        bottom: y + height / 2,
      };
      expect(scene.nodes.filter((node) => overlap(boxOf(node), place))).toEqual([]);
    }
  });

  it("is not named where no tile is passed", () => {
    expect(labels(tiles(residualNet(["identity"]), 0))).toEqual([]);
  });
});

describe("lines between tiles", () => {
  it("count the tensors on them, not how often one is used", () => {
    const scene = tiles(residualNet(["identity", "identity"]), 1);
    const merged = scene.edges.filter((edge) => (edge.merged?.count ?? 1) > 1);
    expect(merged.length).toBeGreaterThan(0);
    for (const edge of merged) {
      expect(edge.merged?.tensors).toBe(1);
      expect(edge.merged?.signs).toEqual([]);
    }
  });
});

describe("an open group", () => {
  it("shows its output shape and its number of parameters", () => {
    const modules = { namespaces: ["blocks"], classes: [0], names: ["Stage"] };
    const graph = { ...residualNet(["identity", "identity"]), modules };
    const scene = tiles(graph);
    const size = (shape: readonly number[] | null) => (shape ?? []).reduce((a, b) => a * b, 1);
    for (const { path, facts } of scene.frames) {
      const inside = graph.nodes.filter(({ kind, name }) =>
        kind === "leaf" ? name?.startsWith(`${path.replaceAll("/", ".")}.`) : false,
      );
      const numbers = inside.reduce((sum, { shape }) => sum + size(shape), 0);
      const count = numbers < 1000 ? `${numbers}` : `${(numbers / 1000).toPrecision(3)} K`;
      if (facts.length === 0) continue; // no room
      expect(facts[0].text).toMatch(new RegExp(`^(\\(2, 8, 4, 4\\) · )?${count} params$`));
    }
    expect(scene.frames.some(({ facts }) => facts[0]?.text.startsWith("(2, 8, 4, 4)"))).toBe(true);
  });

  it("counts a weight that it shares with another module, which is drawn outside", () => {
    const g = new Builder();
    const table = g.leaf("table.weight", [100, 8]);
    let h = g.op("MulBackward0", [8], { self: g.leaf("net.x", [8]) });
    const used = (path: string) => {
      g.namespace = path;
      h = g.op("AddBackward0", [8], { self: h, other: g.op("SumBackward1", [8], { self: table }) });
      h = g.op("TanhBackward0", [8], { self: h });
    };
    used("encoder/embed");
    used("decoder/embed");
    g.namespace = "";
    const graph = g.graph([g.op("SumBackward0", [], { self: h }), "loss"]);
    const grouped = groupedGraph(graph);
    const plan = foldedPlan(grouped, toDepth(grouped.tree, firstFolding(grouped.tree), 1));
    const counts = factsOf(graph, plan).map(({ numbers }, f) => [plan.frames[f].path, numbers]);
    expect(counts.sort()).toEqual([
      ["decoder", 800],
      ["encoder", 800],
    ]);
  });
});
