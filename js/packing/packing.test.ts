import fc from "fast-check";
import { describe, expect, it } from "vitest";
import json from "../../tests/packed.json?raw";
import { search } from "../bars/search";
import { checkGraph } from "../guard";
import type { GraphModel, PackedGraph } from "../wire";
import { unpackColumn, unpackRanges } from "./column";
import { unpackGraph } from "./graph";
import { unpackTrait } from "./traits";

/** Python's test_packing.py compares what it packs with the same file. */
const TRAITS: Record<string, { plain: unknown; packed: unknown }> = JSON.parse(json);
const packed = () => structuredClone(TRAITS.graph.packed) as PackedGraph;
const SENTENCE = /^[A-Z].*\.$/s;

describe("unpackTrait", () => {
  it.each(Object.keys(TRAITS))("gives what Python packed of %s", (trait) => {
    expect(unpackTrait(trait, TRAITS[trait].packed)).toEqual(TRAITS[trait].plain);
  });

  it("gives a comparison's graphs and passes", () => {
    const pick = (which: "plain" | "packed") => {
      const { graph, state, steps, run } = TRAITS;
      const pass = { state: state[which], steps: steps[which], run: run[which], transport: null };
      return {
        panes: [{ label: "a", graph: graph[which] }],
        passes: [pass, { ...pass, run: null }],
      };
    };
    for (const trait of ["panes", "passes"] as const) {
      expect(unpackTrait(trait, pick("packed")[trait])).toEqual(pick("plain")[trait]);
    }
  });

  it("gives the same object when it is asked again", () => {
    const travelled = packed();
    expect(unpackTrait("graph", travelled)).toBe(unpackTrait("graph", travelled));
  });

  it.each([null, undefined, {}, []])("leaves %j as it is", (value) => {
    for (const trait of [...Object.keys(TRAITS), "panes", "passes"]) {
      expect(unpackTrait(trait, value)).toBe(value);
    }
  });
});

describe("columns", () => {
  it("writes runs out", () => {
    expect(unpackColumn([4, [0, 3], -1], "a")).toEqual([4, 0, 0, 0, -1]);
    expect(unpackRanges([4, [7, 9], 1], "a")).toEqual([4, 7, 8, 9, 1]);
  });

  it.each([
    [[[0, 1e12]]],
    [
      [
        [0, 9e6],
        [0, 9e6],
      ],
    ],
    [[[0, Number.POSITIVE_INFINITY]]],
    [["0"]],
    [[[0]]],
    [null],
  ])("takes %j for damage at once", (column) => {
    const sentence = 'What Python sent is damaged, at its "a". Run the cell again';
    expect(() => unpackColumn(column, "a")).toThrow(sentence);
    expect(() => unpackRanges(column, "a")).toThrow(sentence);
  });
});

describe("a damaged graph", () => {
  const read = (value: unknown) => checkGraph(unpackGraph(value));

  it.each<[string, (graph: PackedGraph) => void, string]>([
    ["another version", (graph) => Object.assign(graph, { v: 7 }), "but Python sent version 7"],
    ["no nodes", (graph) => Object.assign(graph, { nodes: null }), 'damaged, at its "form"'],
    ["a missing column", (graph) => Object.assign(graph.edges, { target: null }), '"target"'],
    ["a short column", (graph) => graph.nodes.name.pop(), '"name"'],
    ["a form that is none", (graph) => graph.edges.form.splice(0, 1, 99), '"edge_forms"'],
    ["a text that is none", (graph) => graph.nodes.namespace.splice(0, 1, -1), '"texts"'],
    ["an edge to nowhere", (graph) => graph.edges.target.splice(0, 1, -999), "does not join two"],
    ["no forms", (graph) => Object.assign(graph, { node_forms: null }), "lacks its list of nodes"],
    ["no roots", (graph) => Object.assign(graph, { roots: null }), "lacks its list of nodes"],
  ])("with %s is a sentence", (_, damage, sentence) => {
    const graph = packed();
    damage(graph);
    expect(() => read(graph)).toThrow(sentence);
    expect(() => read(graph)).toThrow(SENTENCE);
  });

  it("is a whole sentence, wherever the damage is", () => {
    /** A value anywhere in it, by choosing a key at each level, is replaced. */
    const damage = (value: unknown, path: number[], by: unknown): unknown => {
      if (path.length === 0 || typeof value !== "object" || value === null) return by;
      const keys = Object.keys(value);
      if (keys.length === 0) return by;
      const key = keys[path[0] % keys.length] as keyof typeof value;
      (value as Record<string, unknown>)[key] = damage(value[key], path.slice(1), by);
      return value;
    };
    const paths = fc.array(fc.nat(40), { minLength: 1, maxLength: 4 });
    const others = fc.oneof(fc.jsonValue(), fc.integer(), fc.constant([[0, 1e15]]));
    fc.assert(
      fc.property(paths, others, (path, by) => {
        let graph: GraphModel;
        try {
          graph = read(damage(packed(), path, by));
        } catch (error) {
          expect((error as Error).constructor).toBe(Error);
          expect((error as Error).message).toMatch(SENTENCE);
          return;
        }
        expect(() => search(graph, "w")).not.toThrow(RangeError);
      }),
      { numRuns: 2000 },
    );
  });
});
