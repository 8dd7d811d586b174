import { describe, expect, it } from "vitest";
import { MODELS } from "../demo/models";
import type { EditModel } from "../wire";
import {
  type EdgeId,
  Edges,
  editAt,
  readFactor,
  setFactor,
  toggleCut,
  wayTo,
  without,
} from "./edits";

const A: EdgeId = [0, 0];
const B: EdgeId = [0, 1];

describe("edits", () => {
  it("cuts, makes whole again, scales and undoes, each edge by itself", () => {
    const cut = toggleCut([], A);
    expect(cut).toEqual([{ kind: "cut", edge: [0, 0], value: null }]);
    const both = setFactor(cut, B, 0.5);
    expect(both.map(({ kind }) => kind)).toEqual(["cut", "scale"]);
    expect(toggleCut(both, A)).toEqual([{ kind: "scale", edge: [0, 1], value: 0.5 }]);
    expect(setFactor(both, A, 2).map(({ value }) => value)).toEqual([0.5, 2]);
    expect(setFactor(both, B, 1)).toEqual(cut);
    expect(setFactor(both, B, null)).toEqual(cut);
    expect(without(without(both, A), B)).toEqual([]);
    expect(cut).toHaveLength(1);
  });

  it("leaves edits of whole tensors alone", () => {
    const named: EditModel[] = [{ kind: "scale", edge: "h", value: 2 }];
    expect(editAt(named, A)).toBeNull();
    expect(without(named, A)).toEqual(named);
    expect(toggleCut(named, A)).toHaveLength(2);
  });

  it.each([
    ["0.5", 0.5],
    ["−2", -2],
    ["1e-3", 0.001],
    ["× 3", 3],
    ["1/4", 0.25],
    [" 0 ", 0],
    ["", null],
    ["two", null],
    ["1/0", null],
    ["1/2/3", null],
    ["Infinity", null],
  ])("reads the factor %j", (text, value) => {
    expect(readFactor(text)).toBe(value);
  });
});

describe.each(Object.entries(MODELS))("the edges of %s", (_, make) => {
  const graph = make();
  const edges = new Edges(graph);

  it("are found by consumer and input", () => {
    const wrong = graph.edges.filter(
      ({ kind, source, input_nr }, place) =>
        kind === "gradient" && input_nr !== null && edges.placeOf([source, input_nr]) !== place,
    );
    expect(wrong).toEqual([]);
    expect(edges.placeOf([graph.nodes.length, 0])).toBeNull();
  });

  it("lead from an output to where they arrive", () => {
    const step = Math.ceil(graph.edges.length / 40);
    for (let at = 0; at < graph.edges.length; at += step) {
      const { kind, source, target, input_nr } = graph.edges[at];
      if (kind !== "gradient" || input_nr === null) continue;
      const way = wayTo(graph, [source, input_nr], edges).map((place) => graph.edges[place]);
      expect(way.at(-1)?.target).toBe(target);
      expect(graph.roots.map(({ node }) => node)).toContain(way[0].source);
      for (let i = 1; i < way.length; i++) expect(way[i].source).toBe(way[i - 1].target);
    }
  });
});
