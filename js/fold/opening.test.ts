import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { layout } from "../layout/index";
import { reduce } from "./reduce";
import { boxesAround } from "./strips";
import { type GroupTree, groupTree } from "./tree";

/** A direct child of an open group, as laid out. Its key does not depend on the folding. */
interface Item {
  key: string;
  container: number;
  x: number;
  y: number;
}

interface Picture {
  items: Item[];
  /** Keys of items in one container that edges connect. */
  isJoined(a: string, b: string): boolean;
}

function picture(
  tree: GroupTree,
  edges: { source: number[]; target: number[] },
  open: Set<string>,
): Picture {
  const visible = reduce({ ...edges, tree, open });
  const boxes = boxesAround(
    visible.nodes.map(({ container }) => container),
    tree,
  );
  const size = (v: number) => 40 + 10 * (visible.nodes[v].node % 5);
  const placed = layout({
    n: visible.nodes.length,
    source: visible.edges.map((edge) => edge.source),
    target: visible.edges.map((edge) => edge.target),
    width: visible.nodes.map((_, v) => size(v)),
    height: visible.nodes.map(() => 30),
    boxes: { of: boxes.box, parent: boxes.boxParent },
  });
  const name = ({ node, group }: (typeof visible.nodes)[number]) =>
    group < 0 ? `node ${node}` : `group ${group}`;
  const items = visible.nodes.map((node, v) => ({
    key: name(node),
    container: node.container,
    x: placed.x[v],
    y: placed.y[v],
  }));
  const { left, top, width, height } = placed.boxes;
  boxes.group.forEach((g, b) => {
    const [x, y] = [left[b] + width[b] / 2, top[b] + height[b] / 2];
    items.push({ key: `group ${g}`, container: tree.parent[g], x, y });
  });

  const leader = new Map(items.map(({ key }) => [key, key]));
  const find = (key: string): string => {
    const up = leader.get(key) as string;
    return up === key ? key : find(up);
  };
  for (const { source, target } of visible.edges) {
    const chain = (v: number) => {
      const keys = [{ key: items[v].key, container: items[v].container }];
      for (let g = items[v].container; g > 0; g = tree.parent[g])
        keys.push({ key: `group ${g}`, container: tree.parent[g] });
      return keys;
    };
    const others = chain(target);
    const meeting = chain(source)
      .flatMap((a) => others.filter((b) => b.container === a.container).map((b) => [a.key, b.key]))
      .find(([a, b]) => a !== b);
    if (meeting) leader.set(find(meeting[0]), find(meeting[1]));
  }
  return { items, isJoined: (a, b) => find(a) === find(b) };
}

describe("opening a group", () => {
  const parts = ["a", "a/b", "a/b/c", "a/d", "e", "e/f"];
  const random = fc.record({
    names: fc.array(fc.constantFrom("", ...parts), { minLength: 20, maxLength: 40 }),
    pairs: fc.array(fc.tuple(fc.nat(39), fc.nat(39)), { minLength: 60, maxLength: 100 }),
    open: fc.subarray(parts),
    opened: fc.constantFrom(...parts),
  });

  it("keeps rows and the order in them, within what edges join, everywhere outside", () => {
    let compared = 0;
    fc.assert(
      fc.property(random, ({ names, pairs, open, opened }) => {
        const kept = pairs.filter(([a, b]) => a < b && b < names.length);
        const edges = { source: kept.map(([a]) => a), target: kept.map(([, b]) => b) };
        const tree = groupTree(names);
        const closed = new Set(open.filter((path) => path !== opened));
        const before = picture(tree, edges, closed);
        const after = picture(tree, edges, new Set([...closed, opened]));
        const at = new Map(after.items.map((item) => [item.key, item]));
        const alone = tree.path.findIndex((path, g) => path === opened && tree.size[g] === 1);
        for (const p of before.items) {
          for (const q of before.items) {
            if (p === q || p.container !== q.container || !before.isJoined(p.key, q.key)) continue;
            const [u, v] = [at.get(p.key), at.get(q.key)];
            // An open group of one node has no frame.
            if ([p.key, q.key].some((key) => key === `group ${alone}`)) continue;
            if (!u || !v) throw new Error(`${p.key} or ${q.key} is lost.`);
            const pair = `${p.key}, ${q.key}`;
            expect([pair, Math.sign(v.y - u.y)]).toEqual([pair, Math.sign(q.y - p.y)]);
            if (p.y === q.y) expect([pair, v.x > u.x]).toEqual([pair, q.x > p.x]);
            compared++;
          }
        }
      }),
      { numRuns: 200 },
    );
    expect(compared).toBeGreaterThan(1000);
  });
});
