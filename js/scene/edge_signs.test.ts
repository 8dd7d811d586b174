import { expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { Builder } from "../demo/build_graph";
import { firstFolding, setPlumbing, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { tableMeasure } from "../text/metrics";
import { pointAt } from "./curve";
import { boxOf } from "./find";
import { boxIn, overlap } from "./grid";
import { foldedIn } from "./members";

it("writes the number of lines in one on the line, and away from all boxes", () => {
  const g = new Builder();
  g.namespace = "a";
  const w = g.leaf("a.w", [4]);
  const first = g.op("MulBackward0", [4], { self: g.leaf("x", [4]), other: w });
  const outs = [0, 1].map(() => g.op("TanhBackward0", [4], { self: first }));
  g.namespace = "b";
  const one = g.op("SinBackward0", [4], { self: outs[0] });
  const next = g.op("ExpBackward0", [4], { self: one });
  g.namespace = "c";
  const both = g.op("MulBackward0", [4], { self: outs[0], other: outs[1] });
  const sum = g.op("AddBackward0", [4], { self: next, other: both });
  g.namespace = "";
  const graph = g.graph([g.op("SumBackward0", [], { self: sum }, "loss"), "loss"]);
  const grouped = groupedGraph(graph);
  const scene = foldedScene(
    grouped,
    toDepth(grouped.tree, firstFolding(grouped.tree), 0),
    "left",
    tableMeasure,
  );
  const signs = scene.edges.flatMap(({ merged }) =>
    (merged?.signs ?? []).filter(({ kind }) => kind === "count"),
  );
  expect(signs.map(({ text }) => text)).toEqual(["×2"]);
  for (const sign of signs) {
    const { left, top, right, bottom } = boxIn(sign);
    const around = { left: left - 5.9, top: top - 5.9, right: right + 5.9, bottom: bottom + 5.9 };
    for (const node of scene.nodes) expect(overlap(boxOf(node), around)).toBe(false);
    const line = scene.edges.find(({ merged }) => merged?.signs.includes(sign));
    const away = Array.from({ length: 201 }, (_, i) => {
      const [x, y] = pointAt(line?.curve ?? [], i / 200);
      return Math.hypot(x - sign.x, y - sign.y);
    });
    expect(Math.min(...away)).toBeLessThan(1);
  }
});

it("shows the sign of folded views at rest only in a picture without module boxes", () => {
  for (const namespace of ["", "net"]) {
    const g = new Builder();
    g.namespace = namespace;
    const made = g.op("SinBackward0", [400], { self: g.leaf("x", [400]) });
    const seen = g.op("ViewBackward0", [20, 20], { self: made });
    // The other way around makes the line of the view long.
    let long = made;
    for (let i = 0; i < 4; i++) long = g.op("ExpBackward0", [400], { self: long });
    const graph = g.graph([g.op("MulBackward0", [20, 20], { self: long, other: seen }), "y"]);
    const grouped = groupedGraph(graph);
    const folding = setPlumbing(toDepth(grouped.tree, firstFolding(grouped.tree), 9), true);
    const scene = foldedScene(grouped, folding, "left", tableMeasure);
    const signs = scene.edges.flatMap(({ merged }) => merged?.signs ?? []);
    expect(signs.map(({ kind, isShy = false }) => [kind, isShy])).toEqual([
      ["folded", namespace !== ""],
    ]);
    expect(foldedIn([scene]).plumbing).toBe(namespace === "");
  }
});
