import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { transformer } from "../demo/deep_models";
import { namespacesOf } from "../fold/tree";
import { isAutograd, shownGraph } from "../scene/shown_graph";
import { graphs, MODELS } from "../testing/graphs";
import { graphOf, MEMBERS, PANES } from "../testing/panes";
import type { GraphModel, PaneModel } from "../wire";
import { bestFlow, paneScenes } from "./scenes";
import { onlyWords, unite } from "./united";

const measure = (text: string) => text.length * 6;
const scenes = () => paneScenes(unite(PANES, MEMBERS), "down", measure);
const at = (p: number, id: number) => {
  const { nodes, drawn } = scenes()[p].scene;
  const { x, y } = nodes[drawn[id][0]];
  return [x, y];
};

describe("unite", () => {
  it("gives places that stand for each other one slot", () => {
    const { slot, slotMembers } = unite(PANES, MEMBERS);
    expect(slot[5]).toBe(slot[6]); // the clone and the constant are both MulBackward0's `other`
    expect(slotMembers[slot[5]]).toEqual([null, 4, 4]);
    expect(new Set(slot).size).toBe(6);
  });

  it("keeps apart what one graph has both of", () => {
    const both = graphOf(["- op AddBackward0", "a leaf", "b leaf"], ["0 1 self", "0 2 self"]);
    const { slot } = unite(
      [
        { label: "1", graph: both },
        { label: "2", graph: graphOf(["- op AddBackward0"], []) },
      ],
      [
        [0, 0],
        [1, null],
        [2, null],
      ],
    );
    expect([...slot]).toEqual([0, 1, 2]);
  });

  it("numbers slots so that they make no cycle, whatever is matched with what", () => {
    fc.assert(
      fc.property(graphs, fc.array(fc.nat(2), { minLength: 24, maxLength: 24 }), (graph, held) => {
        // Each node in the first graph, the second, or both.
        const { pane: one } = partOf(
          graph,
          held.map((k) => k !== 1),
        );
        const { pane: other } = partOf(
          graph,
          held.map((k) => k !== 0),
        );
        const roots = new Set(graph.roots.map(({ node }) => node));
        let [a, b] = [0, 0];
        const members = graph.nodes.map(({ id }) => [
          held[id] !== 1 || roots.has(id) ? a++ : null,
          held[id] !== 0 || roots.has(id) ? b++ : null,
        ]);
        const { slots, slot } = unite([one, other], members);
        for (const { source, target } of slots.edges) expect(source).toBeLessThan(target);
        expect(slot.every((at) => at >= 0 && at < slots.nodes.length)).toBe(true);
      }),
      { numRuns: 100 },
    );
  });
});

describe("paneScenes", () => {
  it("puts what all graphs have at the same place", () => {
    for (const id of [0, 1, 2, 3]) {
      expect(at(1, id)).toEqual(at(0, id));
      expect(at(2, id)).toEqual(at(0, id));
    }
    expect(at(1, 5)).toEqual(at(0, 4)); // x, under another number
    expect(at(2, 4)).toEqual(at(1, 4)); // the constant in the place of the clone
  });

  it("marks what others lack, and where a graph lacks something", () => {
    const words = scenes().map(
      ({ only }) => new Map(only.map((one) => [one.node.id, one.tag.text])),
    );
    expect(words).toEqual([
      new Map([[4, "in 2 of 3"]]),
      new Map([
        [4, "only here"],
        [5, "in 2 of 3"],
      ]),
      new Map([[4, "only here"]]),
    ]);
    expect(scenes().map(({ ghosts }) => ghosts.length)).toEqual([1, 0, 1]);
    expect(onlyWords([3, null])).toBe("only here");
    expect(onlyWords([3, 0])).toBeNull();
  });

  it("keeps tags off other nodes", () => {
    for (const { scene, only } of scenes()) {
      for (const { node, tag } of only) {
        for (const { index, x, y, shape } of scene.nodes) {
          if (index === node.index) continue;
          const across = Math.abs(tag.x - x) - (tag.width + shape.width) / 2;
          const along = Math.abs(tag.y - y) - (tag.height + shape.height) / 2;
          expect(Math.max(across, along)).toBeGreaterThan(3);
        }
      }
    }
  });

  it("keeps kinds: a constant's edge stays one where another graph has a gradient's", () => {
    const [, clone, frozen] = scenes();
    expect(frozen.scene.edges[3].quiet).toBe("constant");
    expect(frozen.scene.nodes.find(({ id }) => id === 4)?.quiet).toBe("constant");
    expect(clone.scene.edges[3].quiet).toBeUndefined();
    expect(clone.scene.nodes.find(({ id }) => id === 4)?.quiet).toBeUndefined();
  });

  it("shows of a leaf's copies those that a graph uses", () => {
    const users = (n: number) => Array.from({ length: n }, (_, i) => i);
    const fan = (n: number): GraphModel =>
      graphOf(
        ["- op Sum", "x leaf", ...users(n).map(() => "- op Sin")],
        users(n).flatMap((i) => [`0 ${i + 2} a${i}`, `${i + 2} 1 self`]),
      );
    const members = [[0, 0], [1, 1], ...users(10).map((i) => [i + 2, i < 9 ? i + 2 : null])];
    const [all, fewer] = paneScenes(
      unite(
        [
          { label: "10", graph: fan(10) },
          { label: "9", graph: fan(9) },
        ],
        members,
      ),
      "down",
      measure,
    );
    expect(all.scene.drawn[1]).toHaveLength(10);
    expect(fewer.scene.drawn[1]).toHaveLength(9);
    expect(fewer.ghosts).toHaveLength(2); // one Sin and its copy of x
  });

  it("draws no constants if they are hidden, and all else of every graph", () => {
    const graph = MODELS["w * x.detach() + c * x + b"]();
    const both = ["1", "2"].map((label): PaneModel => ({ label, graph }));
    const members = graph.nodes.map(({ id }) => [id, id]);
    const { nodes, edges } = shownGraph(graph, false);
    expect(nodes.length).toBeLessThan(graph.nodes.length);
    const united = unite(both, members, false);
    expect(Array.from(united.slot, (slot) => slot >= 0)).toEqual(graph.nodes.map(isAutograd));
    for (const { scene, ghosts } of paneScenes(united, "down", measure)) {
      expect(new Set(scene.nodes.map(({ id }) => id))).toEqual(new Set(nodes.map(({ id }) => id)));
      expect(scene.edges).toHaveLength(edges.length);
      expect(ghosts).toEqual([]);
    }
    const frozen = paneScenes(unite(PANES, MEMBERS, false), "down", measure)[2];
    expect(frozen.scene.nodes.map(({ id }) => id)).toEqual([0, 1, 2, 3]);
  });

  it("draws small graphs as cards of one size, with a row for what any of them adds up", () => {
    const users = (n: number) => Array.from({ length: n }, (_, i) => i);
    const sum = (n: number) =>
      graphOf(
        ["- op Add", "x leaf", ...users(n).map(() => "- op Sin")],
        users(n).flatMap((i) => [`0 ${i + 2} a${i}`, `${i + 2} 1 self`]),
      );
    const panes = [3, 2].map((n) => ({ label: `${n}`, graph: sum(n) }));
    const members = [
      [0, 0],
      [1, 1],
      [2, 2],
      [3, 3],
      [4, null],
    ];
    const united = unite(panes, members);
    const [all, fewer] = paneScenes(united, "left", measure, { width: 600, height: 500 });
    for (const { scene } of [all, fewer]) {
      for (const node of scene.nodes) expect(node.shape.card).toBeDefined();
      expect(scene.nodes[scene.drawn[1][0]].shape.card?.rows).toHaveLength(3);
    }
    for (const id of [0, 1, 2, 3]) {
      const [a, b] = [all, fewer].map(({ scene }) => scene.nodes[scene.drawn[id][0]]);
      expect([a.x, a.y, a.shape.width, a.shape.height]).toEqual([
        b.x,
        b.y,
        b.shape.width,
        b.shape.height,
      ]);
    }
    const rows = (p: number) => [all, fewer][p].scene.nodes.find(({ leaf }) => leaf)?.rows ?? [];
    expect(rows(0).filter((words) => words !== "")).toHaveLength(3);
    expect(rows(1).filter((words) => words !== "")).toHaveLength(2);
    expect(["left", "down"]).toContain(bestFlow(united, measure, { width: 600, height: 500 }));
  });

  it.each(["down", "right", "up", "left"] as const)(
    "draws the boxes of modules, flow %s",
    (direction) => {
      const graph = transformer(2);
      const within = namespacesOf(graph);
      const lacks = (id: number) => within[id]?.startsWith("encoder/layers/1") ?? false;
      const { pane, members } = partOf(
        graph,
        graph.nodes.map(({ id }) => !lacks(id)),
      );
      const united = unite([{ label: "all", graph }, pane], members);
      const [whole, part] = paneScenes(united, direction, measure);
      const paths = ({ scene }: typeof whole) => scene.frames.map(({ path }) => path);
      expect(paths(whole)).toContain("encoder/layers/1");
      expect(paths(part)).toEqual(
        paths(whole).filter((path) => !path.startsWith("encoder/layers/1")),
      );
      const inside = whole.scene.nodes.flatMap(({ group }) => group?.paths ?? []);
      expect(inside).toContain("encoder/layers/0");
      expect(inside.some((path) => path.startsWith("encoder/layers/1"))).toBe(false);
      const opened = new Set(["encoder", "encoder/layers", "encoder/layers/0"]);
      const [more] = paneScenes(united, direction, measure, undefined, { opened });
      expect(paths(more)).toContain("encoder/layers/0");
      const frameOf = new Map(whole.scene.frames.map((frame) => [frame.path, frame]));
      for (const { id, x, y, group } of whole.scene.nodes) {
        if (group) continue;
        const frame = frameOf.get(graph.nodes[id].namespace ?? "");
        if (graph.nodes[id].kind !== "op" || !frame) continue;
        expect(x > frame.left && x < frame.right && y > frame.top && y < frame.bottom).toBe(true);
      }
      const { edgeOf, edges } = part.scene;
      edges.forEach(({ merged }, i) => {
        for (const e of merged?.edges ?? []) expect(edgeOf?.[e]).toBe(i);
      });
    },
  );

  it("opens fewer levels until names are legible, and tells in which boxes graphs differ", () => {
    const graph = transformer(8);
    const within = namespacesOf(graph);
    const lacking = graph.nodes.filter(
      ({ id, kind }) => kind === "op" && /layers.3/.test(within[id]),
    );
    const lost = lacking[2].id;
    const { pane, members } = partOf(
      graph,
      graph.nodes.map(({ id }) => id !== lost),
    );
    const united = unite([{ label: "all", graph }, pane], members);
    const words = (room?: { width: number; height: number }) =>
      paneScenes(united, "left", measure, room).map(({ only }) => only.map(({ tag }) => tag.text));
    expect(words()).toEqual([["only here"], []]);
    expect(words({ width: 300, height: 200 })).toEqual([["1 differ"], ["1 differ"]]);
  });

  it("draws any part of any graph as the whole draws it, in every direction", () => {
    fc.assert(
      fc.property(
        graphs,
        fc.array(fc.boolean(), { minLength: 24, maxLength: 24 }),
        fc.constantFrom("down" as const, "right" as const, "up" as const, "left" as const),
        (graph, keep, direction) => {
          const { pane, members } = partOf(graph, keep);
          const united = unite([{ label: "all", graph }, pane], members);
          const [whole, part] = paneScenes(united, direction, measure);
          for (const { scene } of [whole, part]) {
            scene.nodes.forEach((node, i) => {
              expect(node.index).toBe(i);
              expect(scene.drawn[node.id]).toContain(i);
            });
            for (const { source, target } of scene.edges) {
              expect(scene.nodes[source]).toBeDefined();
              expect(scene.nodes[target]).toBeDefined();
            }
          }
          expect(part.scene.edges).toHaveLength(pane.graph.edges.length);
          expect(part.scene.nodes.length + part.ghosts.length).toBe(whole.scene.nodes.length);
          const points = new Set(whole.scene.nodes.map(({ x, y }) => `${x} ${y}`));
          for (const { x, y } of part.scene.nodes) expect(points).toContain(`${x} ${y}`);
        },
      ),
      { numRuns: 60 },
    );
  });
});

/** The same graph with some of its nodes only; the outputs stay. */
function partOf(graph: GraphModel, keep: readonly boolean[]) {
  const roots = new Set(graph.roots.map(({ node }) => node));
  const kept = graph.nodes.filter(({ id }) => keep[id] || roots.has(id));
  const id = new Map(kept.map((node, i) => [node.id, i]));
  const number = (node: number) => id.get(node) ?? 0;
  const pane: PaneModel = {
    label: "part",
    graph: {
      ...graph,
      nodes: kept.map((node) => ({ ...node, id: number(node.id) })),
      edges: graph.edges
        .filter(({ source, target }) => id.has(source) && id.has(target))
        .map((edge) => ({ ...edge, source: number(edge.source), target: number(edge.target) })),
      roots: graph.roots.map((root) => ({ ...root, node: number(root.node) })),
    },
  };
  return { pane, members: graph.nodes.map((node) => [node.id, id.get(node.id) ?? null]) };
}
