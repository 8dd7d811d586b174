import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { commonGroup, namespacesOf } from "./tree";

describe("namespacesOf", () => {
  it("puts a leaf where it is used, a shared one around all its uses", () => {
    const g = new Builder();
    const [own, shared, outer] = ["own", "shared", "outer"].map((name) => g.leaf(name, []));
    g.namespace = "net/a";
    const a = g.op("MulBackward0", [], { self: own, other: shared });
    g.namespace = "net/b";
    const b = g.op("MulBackward0", [], { self: a, other: shared });
    g.namespace = null;
    const graph = g.graph([g.op("AddBackward0", [], { self: b, other: outer }), "loss"]);
    const byLabel = new Map(namespacesOf(graph).map((space, i) => [graph.nodes[i].label, space]));
    expect(byLabel.get("own")).toBe("net/a");
    expect(byLabel.get("shared")).toBe("net");
    expect(byLabel.get("outer")).toBe("");
    expect(byLabel.get("AddBackward0")).toBe("");
  });
});

describe("commonGroup", () => {
  it.each([
    ["a/b", "a/b", "a/b"],
    ["a/b/c", "a/b/d", "a/b"],
    ["a/b", "a/bc", "a"],
    ["a", "b", ""],
    ["", "a", ""],
  ])("of %s and %s is %s", (a, b, common) => {
    expect(commonGroup(a, b)).toBe(common);
    expect(commonGroup(b, a)).toBe(common);
  });
});
