import { describe, expect, it } from "vitest";
import { MODELS } from "../../demo/models";
import { type EdgeId, placeOf } from "../../scene/edge_id";
import type { EditModel } from "../../wire";
import {
  editAt,
  nameThatIsOn,
  readFactor,
  readNumbers,
  setEdit,
  setFactor,
  toggleCut,
  wayTo,
} from "./edits";

const A: EdgeId = [0, 0];
const B: EdgeId = [0, 1];

function edit(edge: EditModel["edge"]): EditModel {
  return { kind: "scale", edge, value: 2, name: null, off: false };
}

describe("edits", () => {
  it("cuts, makes whole again, scales and undoes, each edge by itself", () => {
    const cut = toggleCut([], A);
    expect(cut).toEqual([{ kind: "cut", edge: [0, 0], value: null, name: null, off: false }]);
    const both = setFactor(cut, B, 0.5);
    expect(both.map(({ kind }) => kind)).toEqual(["cut", "scale"]);
    expect(toggleCut(both, A)).toEqual([both[1]]);
    expect(setFactor(both, A, 2).map(({ value }) => value)).toEqual([2, 0.5]);
    expect(setFactor(both, B, 1)).toEqual(cut);
    expect(setFactor(both, B, null)).toEqual(cut);
    expect(setEdit(setEdit(both, A, null), B, null)).toEqual([]);
    expect(cut).toHaveLength(1);
  });

  it("keep their name when they do something else, and leave alone what is off", () => {
    const named = toggleCut([], A).map((edit) => ({ ...edit, name: "skip" }));
    expect(setFactor(named, A, 2)).toEqual([{ ...named[0], kind: "scale", value: 2 }]);
    const off = named.map((edit) => ({ ...edit, off: true }));
    expect(editAt(off, A)).toBeNull();
    const [kept, added] = setEdit(off, A, { kind: "replace", value: [1, 2] });
    expect(kept).toEqual(off[0]);
    expect(added).toEqual({ kind: "replace", edge: [0, 0], value: [1, 2], name: null, off: false });
    expect(setEdit([kept, added], A, null)).toEqual(off);
  });

  it.each([
    ["A", [["A", false]]],
    [null, [["A", true]]],
    [null, [[null, false]]],
    [
      "A",
      [
        ["A", false],
        ["B", true],
        [null, true],
      ],
    ],
    [
      null,
      [
        ["A", false],
        ["B", false],
      ],
    ],
    [
      null,
      [
        ["A", false],
        ["A", true],
      ],
    ],
    [
      null,
      [
        ["A", false],
        [null, false],
      ],
    ],
    [
      "B",
      [
        ["A", true],
        ["B", false],
        ["B", false],
      ],
    ],
    [null, []],
  ] as [string | null, [string | null, boolean][]][])("%j is what is on of %j", (on, listed) => {
    const edits = listed.map(([name, off], i) => ({ ...edit("h"), edge: [i, 0], name, off }));
    expect(nameThatIsOn(edits)).toBe(on);
  });

  it.each([
    ["3", 3],
    ["= −2", -2],
    ["1, 2, 3", [1, 2, 3]],
    ["[1 1/2; 1e-3]", [1, 0.5, 0.001]],
    ["", null],
    ["1, two", null],
    ["nan", null],
  ])("reads the numbers %j", (text, value) => {
    expect(readNumbers(text)).toEqual(value);
  });

  it("leaves edits of whole tensors alone", () => {
    const named = [edit("h")];
    expect(editAt(named, A)).toBeNull();
    expect(setEdit(named, A, null)).toEqual(named);
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

  it("are found by consumer and input", () => {
    const wrong = graph.edges.filter(
      ({ kind, source, arg_nr }, place) =>
        kind === "gradient" && arg_nr !== null && placeOf(graph, [source, arg_nr]) !== place,
    );
    expect(wrong).toEqual([]);
    expect(placeOf(graph, [graph.nodes.length, 0])).toBeNull();
  });

  it("lead from an output to where they arrive", () => {
    const step = Math.ceil(graph.edges.length / 40);
    for (let at = 0; at < graph.edges.length; at += step) {
      const { kind, source, target, arg_nr } = graph.edges[at];
      if (kind !== "gradient" || arg_nr === null) continue;
      const way = wayTo(graph, [source, arg_nr]).map((place) => graph.edges[place]);
      expect(way.at(-1)?.target).toBe(target);
      expect(graph.roots.map(({ node }) => node)).toContain(way[0].source);
      for (let i = 1; i < way.length; i++) expect(way[i].source).toBe(way[i - 1].target);
    }
  });
});
