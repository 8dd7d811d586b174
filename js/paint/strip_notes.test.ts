import { describe, expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { passNorms } from "../colours/norms";
import { tileGrads } from "../colours/tile_grads";
import { Builder } from "../demo/build_graph";
import { firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { tableMeasure } from "../text/metrics";
import { nodeClass } from "./classes";
import { NO_MARKS } from "./marks";
import { stripNotes } from "./strip_notes";

/** Six blocks in a row with a parameter each, or the steps of a loop that share one or not. */
function blocks(areSteps: boolean, isShared = areSteps) {
  const g = new Builder();
  const shared = isShared ? g.leaf("net.w", [4]) : null;
  let x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
  for (let i = 0; i < 6; i++) {
    g.namespace = areSteps ? `net/step ${i}` : `net/${i}`;
    const other = shared ?? g.leaf(`net.${i}.w`, [4]);
    x = g.op("TanhBackward0", [4], { self: g.op("MulBackward0", [4], { self: x, other }) });
  }
  g.namespace = "";
  const graph = g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
  const grouped = groupedGraph(graph);
  const folding = toDepth(grouped.tree, firstFolding(grouped.tree), 1);
  const room = { width: 1300, height: 600 };
  const scene = foldedScene(grouped, folding, "left", tableMeasure, { room });
  const leaves = graph.nodes.filter(({ name }) => name?.startsWith("net."));
  /** With the `.grad` of all parameters but the first `missing`. */
  const marks = (missing = 0) => {
    const known = leaves.slice(missing);
    const held = new Map(known.map(({ id }, i) => [id, { values: null, norm: i + 1 }]));
    const pass = passNorms(grouped, held, false);
    const { tiles } = tileGrads(graph, scene, held, tableMeasure, pass);
    return { ...NO_MARKS, held, tiles };
  };
  return { scene, marks, bars: scene.nodes.filter(({ bar }) => bar) };
}

describe("a strip after a pass that was not recorded", () => {
  it("has bars of what .grad holds, if each block has its own parameters", () => {
    const { scene, marks, bars } = blocks(false);
    const { tiles } = marks();
    expect(bars).toHaveLength(6);
    const words = bars.map(({ index }) => tiles.get(index)?.words);
    for (const one of words) expect(one).toMatch(/^norm of \.grad of its 1 parameter: \d\.00/);
    expect(stripNotes(scene, marks(), tableMeasure)).toEqual([]);
    // Less than all of a block's parameters says nothing about it.
    const partly = marks(2);
    expect(bars.filter(({ index }) => partly.tiles.has(index))).toHaveLength(4);
  });

  it("has bars for steps with parameters of their own", () => {
    const { scene, marks, bars } = blocks(true, false);
    expect(bars).toHaveLength(6);
    for (const { index } of bars)
      expect(marks().tiles.get(index)?.words).toMatch(/^norm of \.grad/);
    expect(stripNotes(scene, marks(), tableMeasure)).toEqual([]);
  });

  it("has no bars but says what to do, if its steps share their parameters", () => {
    const { scene, marks, bars } = blocks(true);
    expect(bars).toHaveLength(6);
    for (const bar of bars) {
      expect(marks().tiles.has(bar.index)).toBe(false);
      expect(nodeClass(bar, marks(), new Set())).toContain("is-unknown");
    }
    const notes = stripNotes(scene, marks(), tableMeasure);
    const whole = "no pass recorded: make the widget before backward()";
    expect(notes.map(({ text }) => text)).toEqual([whole]);
    // Between the frame's head and the bars, where their numbers would be.
    const { y, height } = notes[0];
    const [{ y: middle, shape }] = bars;
    expect(y + height / 2).toBeLessThan(middle - shape.height / 2);
    const frame = scene.frames.find(({ facts }) => facts.some(({ text }) => text === "×6"));
    expect(y - height / 2).toBeGreaterThan((frame?.top ?? Number.NaN) + 22);
    expect(stripNotes(scene, { ...NO_MARKS, ran: true }, tableMeasure)).toEqual(notes);
    expect(stripNotes(scene, NO_MARKS, tableMeasure)).toEqual([]);
  });
});
