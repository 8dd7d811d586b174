import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { expandTo, groupTree, lastPart, pathTo } from "./tree";

const namespaces = fc.array(
  fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 4 }).map((parts) => parts.join("/")),
  { maxLength: 30 },
);

describe("groupTree", () => {
  it("makes a group per module and counts the nodes in it", () => {
    //  ""  -- a -- a/0
    //     \      \ a/1
    //      b
    const tree = groupTree(["a/1", "", "a/0", "a", "b", "a/1"]);
    expect(tree.path).toEqual(["", "a", "a/1", "a/0", "b"]);
    expect(Array.from(tree.parent)).toEqual([-1, 0, 1, 1, 0]);
    expect(Array.from(tree.depth)).toEqual([0, 1, 2, 2, 1]);
    expect(Array.from(tree.groupOf)).toEqual([2, 0, 3, 1, 4, 2]);
    expect(Array.from(tree.size)).toEqual([6, 4, 2, 1, 1]);
    expect(Array.from(tree.children.item.subarray(tree.children.start[1]))).toEqual([2, 3]);
    expect(tree.byPath.get("a/0")).toBe(3);
  });

  it("leaves out empty parts and knows the graph without groups", () => {
    expect(groupTree(["/a//b/", "a/b"]).path).toEqual(["", "a", "a/b"]);
    expect(groupTree([]).path).toEqual([""]);
  });

  it("puts each node under every prefix of its namespace", () => {
    fc.assert(
      fc.property(namespaces, (names) => {
        const tree = groupTree(names);
        tree.path.forEach((path, g) => {
          const inside = names.filter(
            (name) => path === "" || name === path || name.startsWith(`${path}/`),
          );
          expect(tree.size[g]).toBe(inside.length);
          if (g > 0) expect(tree.parent[g]).toBeLessThan(g);
        });
        names.forEach((name, v) => {
          expect(tree.path[tree.groupOf[v]]).toBe(name);
        });
      }),
    );
  });

  it("takes a namespace of 1,000 parts", () => {
    const deep = Array.from({ length: 1_000 }, (_, i) => i).join("/");
    expect(groupTree([deep]).path.length).toBe(1_001);
  });
});

describe("expandTo and pathTo", () => {
  const tree = groupTree(["a/b/c", "a", "d"]);

  it("opens as many levels as asked", () => {
    expect([...expandTo(tree, 0)]).toEqual([]);
    expect([...expandTo(tree, 1)]).toEqual(["a", "d"]);
    expect([...expandTo(tree, 2)]).toEqual(["a", "a/b", "d"]);
    expect(expandTo(tree, 9).size).toBe(4);
  });

  it("names what is around a node, the outermost first", () => {
    expect(pathTo(tree, 0)).toEqual(["a", "a/b", "a/b/c"]);
    expect(pathTo(tree, 1)).toEqual(["a"]);
    expect(lastPart("a/b/c")).toBe("c");
    expect(lastPart("a")).toBe("a");
  });
});
