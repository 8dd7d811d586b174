// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { legendEntries } from "../controls/legend";
import { search } from "../controls/search";
import { describe as describeNode } from "../interact/describe";
import { walk } from "../interact/walk";
import { edgeClass, nodeClass } from "../paint/classes";
import { edgeParts, NO_FLOW } from "../paint/edge_parts";
import { NO_MARKS } from "../paint/marks";
import { nodeParts } from "../paint/node_parts";
import type { Part } from "../paint/parts";
import { MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { shownGraph } from "./shown_graph";

const graph = () => shownGraph(MODELS["w * x.detach() + c * x + b"](), true);
const idOf = (label: string) => graph().nodes.findIndex((node) => node.label === label);
const scene = () => sceneOf(graph());
const RAN = { ...NO_MARKS, ran: true };

function flat(parts: readonly Part[]): Part[] {
  return parts.flatMap((part) => [
    part,
    ...(typeof part.content === "string" ? [] : flat(part.content)),
  ]);
}

function edgesOf(kind: string) {
  const all = graph();
  return scene().edges.filter((edge) => all.edges[edge.index].kind === kind);
}

describe("constants and cuts in the drawing", () => {
  it("draws an arrow along which gradients flow, to what takes a value, and none at a cut", () => {
    const tips = (kind: string, name: string) =>
      edgesOf(kind).map((edge) =>
        flat(edgeParts(edge, [0, 1]))
          .filter(({ attributes }) => attributes.class === name)
          .map(({ attributes }) => String(attributes.d).split("L")[0]),
      );
    const ends = (kind: string, at: (curve: Float64Array) => number) =>
      edgesOf(kind).map(({ curve }) => [`M${curve[at(curve)]},${curve[at(curve) + 1]}`]);
    expect(tips("gradient", "gw-arrow")).toEqual(ends("gradient", ({ length }) => length - 2));
    expect(tips("gradient", "gw-value-head").flat()).toEqual([]);
    expect(tips("constant", "gw-value-head")).toEqual(ends("constant", () => 0));
    expect([...tips("constant", "gw-arrow"), ...tips("cut", "gw-arrow")].flat()).toEqual([]);
    expect(tips("cut", "gw-value-head").flat()).toEqual([]);
  });

  it("puts scissors on the edge of a cut, and says what they mean", () => {
    const [cut] = edgesOf("cut");
    const parts = flat(edgeParts(cut, [0, 1]));
    const scissors = parts.filter(({ attributes }) => attributes.class === "gw-scissors");
    expect(scissors).toHaveLength(1);
    expect(parts.filter(({ tag }) => tag === "title").map(({ content }) => content)).toEqual([
      NO_FLOW,
    ]);
    const [, x, y] = /translate\((.*),(.*)\)/.exec(String(scissors[0].attributes.transform)) ?? [];
    const [left, top, right, bottom] = cut.bounds;
    expect(Number(x) >= left && Number(x) <= right).toBe(true);
    expect(Number(y) > top && Number(y) < bottom).toBe(true);
  });

  it("marks a constant, a cut and their edges as no part of backward", () => {
    const drawn = scene();
    for (const label of ["x.detach()", "c"]) {
      const node = drawn.nodes[idOf(label)];
      const name = nodeClass(node, RAN, new Set());
      expect(name).toContain("gw-quiet");
      expect(name).not.toContain("is-unreached");
      expect(name).not.toContain("gw-op");
      expect(flat(nodeParts(node)).map(({ attributes }) => attributes.class)).not.toContain(
        "gw-badge-reached",
      );
    }
    const leaf = drawn.nodes[idOf("w")];
    expect(nodeClass(leaf, RAN, new Set())).toContain("is-unreached");
    for (const edge of [...edgesOf("cut"), ...edgesOf("constant")])
      expect(edgeClass(edge, drawn, RAN)).not.toContain("is-unreached");
  });

  it("writes the name or the value on a chip that is smaller than an operation", () => {
    const drawn = scene();
    const texts = (label: string) => drawn.nodes[idOf(label)].shape.texts.map(({ text }) => text);
    expect(texts("x.detach()")).toEqual(["x.detach()", "3"]);
    expect(texts("c")).toEqual(["c", "0.5"]);
    expect(drawn.nodes[idOf("c")].shape.height).toBeLessThan(drawn.nodes[0].shape.height);
  });

  it("says in words what they are", () => {
    const words = describeNode(graph(), idOf("x.detach()"), NO_MARKS);
    expect(words.title).toBe("x.detach()");
    expect(words.lines).toContain(NO_FLOW);
    expect(words.lines).toContain("cut off from x");
    const alias = MODELS["a detached alias"]();
    const outside = alias.nodes.findIndex(({ kind }) => kind === "outside");
    expect(describeNode(alias, outside, NO_MARKS).lines.join()).toMatch(/not part of this graph/);
    expect(describeNode(graph(), idOf("x"), NO_MARKS).lines.join()).not.toMatch(/used 2/);
  });

  it("is found by search and reached by the arrow keys", () => {
    expect(search(graph(), "detach")).toEqual([idOf("x.detach()")]);
    expect(search(graph(), "constant")).toContain(idOf("c"));
    const drawn = scene();
    const cut = idOf("x.detach()");
    const [taker] = graph().edges.filter(({ target }) => target === cut);
    expect(walk(drawn, cut, "against")).toBe(taker.source);
    expect(walk(drawn, cut, "along")).toBe(idOf("x"));
  });

  it("has entries in the legend for what is drawn only", () => {
    const options = {
      stubs: false,
      copies: false,
      ran: false,
      unreached: false,
      waits: true,
      freed: false,
      recording: null,
    };
    const texts = (kinds: string[]) =>
      legendEntries({ ...options, kinds: new Set(kinds) as never }).map(
        (entry) => entry.textContent,
      );
    expect(texts(["op", "leaf"]).join()).not.toMatch(/constant|cut/);
    expect(texts(["op", "constant", "cut"]).join()).toMatch(/constant.*no gradient flows here/);
    expect(texts(["outside"]).join()).toMatch(/outside this graph/);
  });
});
