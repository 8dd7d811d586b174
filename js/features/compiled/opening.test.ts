import { describe, expect, it } from "vitest";
import type { Message } from "../../channel";
import { openInside, wholeFolding } from "../../fold/folding";
import { groupedGraph } from "../../fold/grouped_graph";
import type { Press } from "../../interact/hit";
import type { SceneNode } from "../../scene/scene";
import { isWork, shownGraph } from "../../scene/shown_graph";
import { recordingOf } from "../../steps/recording";
import { graphOf } from "../../testing/panes";
import { Drawable } from "../../view/drawable";
import type { GraphModel } from "../../wire";
import { Opening } from "./opening";

const BOX = "CompiledFunctionBackward";

/** sum ← compiled ← w, and the compiled node with a call inside that uses a saved tensor. */
function opened(): GraphModel {
  const graph = graphOf(
    ["- op Sum", "- op CompiledFunctionBackward", "w leaf", "- call aten.mm.default", "s constant"],
    ["0 1 self", "1 2 -", "1 3 self", "3 4 mat2 constant"],
  );
  Object.assign(graph.nodes[1], { namespace: BOX });
  Object.assign(graph.nodes[3], { namespace: `${BOX}/linear`, inside: 1 });
  Object.assign(graph.nodes[4], { inside: 1 });
  graph.edges[1].via = 3;
  return graph;
}

function closed(): GraphModel {
  return graphOf(["- op Sum", "- op CompiledFunctionBackward", "w leaf"], ["0 1 self", "1 2 -"]);
}

function openings(openable: number[] | null) {
  const sent: Message[] = [];
  const channel = { get: () => openable, send: (message: Message) => sent.push(message) };
  const of = new Opening(channel as unknown as ConstructorParameters<typeof Opening>[0]);
  return { of, sent };
}

function press(over: Partial<Press>): Press {
  return { node: null, frame: null, isSign: false, isDouble: true, at: [0, 0], ...over } as Press;
}

const at = (id: number) => ({ id }) as SceneNode;

describe("Opening", () => {
  it("opens by a double click, and by +", () => {
    const { of, sent } = openings([1]);
    expect(of.pressed(closed(), press({ node: at(1), isDouble: false }))).toBe(false);
    expect(of.pressed(closed(), press({ node: at(0) }))).toBe(false);
    expect(of.pressed(closed(), press({ node: at(1) }))).toBe(true);
    expect(of.keyed(closed(), "+", at(1))).toBe(true);
    expect(sent).toEqual(Array(2).fill({ kind: "expand", node: 1 }));
  });

  it("closes by its box alone", () => {
    const { of, sent } = openings([1]);
    expect(of.pressed(opened(), press({ node: at(1) }))).toBe(false);
    expect(of.pressed(opened(), press({ frame: `${BOX}/linear` }))).toBe(false);
    expect(of.keyed(opened(), "-", at(3))).toBe(false);
    expect(of.pressed(opened(), press({ frame: BOX, isDouble: false, isSign: true }))).toBe(true);
    expect(of.keyed(opened(), "-", at(1))).toBe(true);
    expect(sent).toEqual(Array(2).fill({ kind: "collapse", node: 1 }));
  });

  it("leaves the box to be folded where nobody is there to ask", () => {
    for (const openable of [null, []]) {
      const { of, sent } = openings(openable);
      expect(of.pressed(opened(), press({ frame: BOX }))).toBe(false);
      expect(of.pressed(closed(), press({ node: at(1) }))).toBe(false);
      expect(sent).toEqual([]);
    }
  });
});

describe("what is opened", () => {
  it("hands its gradients on from the calls inside, with every edge at its place", () => {
    for (const constants of [true, false]) {
      const shown = shownGraph(opened(), constants);
      expect(shown.edges[1]).toMatchObject({ source: 3, target: 2 });
      expect(shown.edges.slice(0, 3).map(({ target }) => target)).toEqual([1, 2, 3]);
      expect(shown.nodes.filter(isWork).map(({ id }) => id)).toEqual([0, 1, 3]);
      expect(shown.nodes).toHaveLength(constants ? 5 : 4);
    }
  });

  it("counts no call as a node of autograd's", () => {
    const { words, label, size } = new Drawable(opened(), false);
    expect(words.slice(1)).toEqual(["3 nodes and 1 call", "3 nodes, 2 edges"]);
    expect(label).toContain("graph of 3 nodes, 2 edges, 1 leaf");
    expect([size, new Drawable(closed(), false).size]).toEqual(
      Array(2).fill({ nodes: 3, edges: 2 }),
    );
    expect(new Drawable(closed(), false).words[1]).toBe("3 nodes");
  });

  it("opens the new boxes, and no others", () => {
    const before = groupedGraph(closed()).tree;
    const grouped = groupedGraph(opened());
    const folding = { ...wholeFolding(before), open: new Set<string>() };
    const open = openInside(grouped, before, folding).open;
    expect([...open].sort()).toEqual([BOX, `${BOX}/linear`]);
    expect(openInside(grouped, grouped.tree, folding).open.size).toBe(0);
  });

  it("runs before the node that it is inside of passes on, or where nobody goes in, with it", () => {
    const step = { op: "", name: null, accumulated: null };
    const steps = [
      { ...step, step: 1, node: 0, ready: 0 },
      { ...step, step: 2, node: 1, ready: 1 },
    ];
    const inside = recordingOf(opened(), steps, null);
    expect([...inside.step]).toEqual([1, 3, 0, 2, 3]);
    expect([...inside.begin]).toEqual([1, 2, 0, 2, 3]);
    expect([...inside.ends]).toEqual([0, 1, 3]);
    const beside = recordingOf(opened(), steps, null, false);
    expect([...beside.step]).toEqual([1, 2, 0, 2, 2]);
    expect(beside.ready[3]).toBe(1);
  });
});
