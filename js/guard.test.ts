import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkGraph } from "./guard";
import { graphs, MODELS } from "./testing/graphs";

const example = () => structuredClone(MODELS["h = w * x + b"]());

describe("checkGraph", () => {
  it("lets graphs through unchanged", () => {
    fc.assert(
      fc.property(graphs, (graph) => {
        expect(checkGraph(graph)).toBe(graph);
      }),
    );
  });

  it("takes any JSON without another error than a sentence", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        try {
          checkGraph(value);
        } catch (error) {
          expect((error as Error).message).toMatch(/^[A-Z].*\.$/);
          expect((error as Error).constructor).toBe(Error);
        }
      }),
    );
  });

  it("says what to do about another version", () => {
    expect(() => checkGraph({ ...example(), v: 2 })).toThrow(
      "This widget's front end reads wire version 1, but Python sent version 2. Restart the kernel and reload the page",
    );
  });

  it.each([
    [
      "an edge to nowhere",
      { edges: [{ source: 0, target: 99 }] },
      "Edge 0 does not join two of the graph's 5 nodes.",
    ],
    [
      "an output that is no node",
      { roots: [{ node: -1 }] },
      "Output 0 is not one of the graph's 5 nodes.",
    ],
    [
      "a node out of place",
      { nodes: [{ id: 3 }] },
      "Node 0 of the graph does not carry its position as its id.",
    ],
    [
      "no lists",
      { nodes: undefined },
      "The graph that Python sent lacks its list of nodes, edges or roots.",
    ],
  ])("names %s", (_, change, message) => {
    expect(() => checkGraph({ ...example(), ...change })).toThrow(message);
  });
});
