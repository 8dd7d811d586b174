import { describe, expect, it } from "vitest";
import { makeScene } from "../arrange/pipeline";
import { localChannel } from "../channel";
import { Builder } from "../demo/build_graph";
import { closeGroup, firstFolding } from "../fold/folding";
import { foldedPlan, groupedGraph } from "../fold/grouped_graph";
import { freshTraits } from "../testing/traits";
import { estimate } from "../text/measure";
import type { DtypesModel, JsonNumber, MemoryModel, RunModel } from "../wire";
import {
  alarmOf,
  type ColourSources,
  NOT_FINITE,
  NOTHING,
  withoutScaleOfOne,
  ZERO,
} from "./colouring";
import { colouringOf, knownFor } from "./modes";
import { gradientNorms } from "./norms";

type Change = Partial<ColourSources> & { memory?: MemoryModel; dtypes?: DtypesModel };

const isKnown = (by: string, sources: ColourSources) => knownFor(by, sources) !== null;

/** loss = sum(b(a(x))): loss 0, b 1, a 2, x 3; edges 0 to 2 in a row. */
function line() {
  const g = new Builder();
  const x = g.leaf("x", [2]);
  g.namespace = "first";
  const a = g.op("TanhBackward0", [2], { self: x });
  g.namespace = "second";
  const b = g.op("SinBackward0", [2], { self: a });
  g.namespace = null;
  return g.graph([g.op("SumBackward0", [], { self: b }, "loss"), "loss"]);
}

function run(norms: (JsonNumber | null)[], grad: JsonNumber | null = null): RunModel {
  return {
    run: 1,
    ended: "done",
    seeds: [{ node: 0, output_nr: 0, values: 1, norm: 1 }],
    arrived: [],
    edges: norms.map((_, i) => i),
    values: norms.map(() => null),
    norms,
    grads:
      grad === null
        ? []
        : [{ node: 3, values: null, norm: grad, before: null, changed: false, now: null }],
    marks: [],
  };
}

function picture(closed: string[] = []) {
  const graph = line();
  const grouped = groupedGraph(graph);
  const folding = closed.reduce(closeGroup, firstFolding(grouped.tree));
  const scene = makeScene(graph, foldedPlan(grouped, folding), "down", estimate);
  const sources = ({ memory, dtypes, ...change }: Change): ColourSources => ({
    get: localChannel(
      freshTraits(graph, { _memory: memory ?? null, ...(dtypes && { _dtypes: dtypes }) }),
    ).get,
    graph,
    tiles: null,
    norms: null,
    tree: grouped.tree,
    ...change,
  });
  return { graph, scene, sources };
}

describe("gradientNorms", () => {
  it("takes what arrives at a node, and a leaf's .grad", () => {
    const { edges, nodes } = gradientNorms(line(), run([0.5, 4, 2], 8));
    expect([...edges]).toEqual([0.5, 4, 2]);
    expect([...nodes]).toEqual([1, 0.5, 4, 8]);
  });

  it("tells not known from NaN and Inf", () => {
    const { edges, nodes } = gradientNorms(line(), run([null, "nan", "inf"]));
    expect([...edges]).toEqual([Number.NaN, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
    expect(nodes[1]).toBeNaN();
    expect(nodes[2]).toBe(Number.POSITIVE_INFINITY);
  });

  it("takes the largest where several arrive", () => {
    const g = new Builder();
    const x = g.leaf("x", []);
    const graph = g.graph([g.op("MulBackward0", [], { self: x, other: x }), "y"]);
    expect(gradientNorms(graph, run([3, 5])).nodes[1]).toBe(5);
    expect(gradientNorms(graph, run([5, 3])).nodes[1]).toBe(5);
    expect(gradientNorms(graph, run(["nan", 3])).nodes[1]).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("colours", () => {
  it("run from the least gradient to the largest, for nodes and edges", () => {
    const { graph, scene, sources } = picture();
    const norms = gradientNorms(graph, run([0.1, 0.01, 0.001], 0.001));
    const { tint, legend } = colouringOf("gradient", scene, sources({ norms }));
    expect(scene.nodes.map(({ id, index }) => [id, tint?.nodes[index]])).toEqual([
      [0, "is-c8"],
      [1, "is-c6"],
      [2, "is-c4"],
      [3, "is-c2"],
    ]);
    expect(tint?.edges).toEqual(["is-c6", "is-c4", "is-c2"]);
    expect(legend?.ticks?.map(({ text }) => text)).toEqual(["1e-4", "1e-3", "0.01", "0.1", "1"]);
    expect(legend?.ticks?.map(({ at }) => at)).toEqual(
      [0, 1 / 4, 1 / 2, 3 / 4, 1].map((at) => expect.closeTo(at)),
    );
  });

  it("set zero, NaN and no gradient apart, and explain only what is there", () => {
    const { graph, scene, sources } = picture();
    const norms = gradientNorms(graph, run([2, 0, "nan"]));
    const { tint, legend } = colouringOf("gradient", scene, sources({ norms }));
    expect(tint?.nodes).toEqual([expect.stringMatching(/^is-c\d$/), "is-c4", ZERO, NOT_FINITE]);
    expect(legend?.entries.map(({ name }) => name)).toEqual([ZERO, NOT_FINITE]);
  });

  it("mark zeros and NaN inside a closed box", () => {
    const { graph, scene } = picture(["first", "second"]);
    const boxOf = (id: number) => scene.nodes[scene.drawn[id][0]];
    expect(boxOf(2).group?.members).toContain(3);
    const alarms = (norms: (JsonNumber | null)[]) =>
      [1, 2].map((id) => alarmOf(boxOf(id), gradientNorms(graph, run(norms))));
    expect(alarms([1, 1, 1])).toEqual([null, null]);
    expect(alarms([1, 1, 0])).toEqual([null, null]);
    expect(alarms([1, 0, 0])).toEqual([null, "0"]);
    expect(alarms([1, 0, "-inf"])).toEqual([null, "NaN"]);
    expect(alarms([1, null, null])).toEqual([null, null]);
  });

  it("add up the memory inside a closed box", () => {
    const memory = {
      nodes: [1, 2, 3],
      bytes: [1024, 512, 512],
      total: 2048,
      unknown: 0,
    };
    const { scene, sources } = picture(["first"]);
    const { tint } = colouringOf("memory", scene, sources({ memory }));
    const nameOf = (id: number) => tint?.nodes[scene.drawn[id][0]];
    expect(nameOf(0)).toBe(NOTHING);
    // 1,024 bytes in either: one colour.
    expect(nameOf(2)).toBe(nameOf(1));
    const open = picture();
    const apart = colouringOf("memory", open.scene, open.sources({ memory })).tint;
    expect(apart?.nodes[open.scene.drawn[2][0]]).toBe("is-c0");
    expect(apart?.nodes[open.scene.drawn[1][0]]).toBe("is-c8");
  });

  it("keep their scale of memory when a box opens", () => {
    const memory = {
      ...{ nodes: [1, 2, 3], bytes: [1024, 512, 2048] },
      ...{ total: 3584, unknown: 0 },
    };
    const [closed, open] = [picture(["first"]), picture()].map(({ scene, sources }) => ({
      scene,
      ...colouringOf("memory", scene, sources({ memory })),
    }));
    expect(open.legend?.ticks).toEqual(closed.legend?.ticks);
    const nameOf = ({ scene, tint }: typeof open, id: number) => tint?.nodes[scene.drawn[id][0]];
    expect(nameOf(open, 1)).toBe(nameOf(closed, 1));
  });

  it("appear in words, exactly", () => {
    const { graph, scene, sources } = picture(["first"]);
    const words = (by: "gradient" | "memory", change: Change) => {
      const { tint } = colouringOf(by, scene, sources(change));
      return [0, 1, 2].map((id) => tint?.words(scene.nodes[scene.drawn[id][0]]));
    };
    expect(words("gradient", { norms: gradientNorms(graph, run([0.5, 0.25, 8])) })).toEqual([
      "gradient norm 1.0",
      "gradient norm 0.5000",
      "gradient norms from 0.2500 to 8.0",
    ]);
    const memory = { nodes: [1, 2, 3], bytes: [512, 1024, 2048] };
    const rest = { total: 3584, unknown: 0 };
    expect(words("memory", { memory: { ...memory, ...rest } })).toEqual([
      "holds 0 bytes for backward",
      "holds 512 bytes for backward",
      "holds 3 KiB for backward",
    ]);
  });

  it("tell modules apart", () => {
    const { scene, sources } = picture();
    const { tint, legend } = colouringOf("module", scene, sources({}));
    expect(tint?.nodes).toEqual([NOTHING, "is-k0", "is-k1", "is-k1"]);
    expect(legend?.entries.map(({ text }) => text)).toEqual(["second", "first"]);
  });

  it("tell the classes of closed boxes apart", () => {
    const { graph, scene, sources } = picture(["first"]);
    expect(isKnown("class", sources({}))).toBe(false);
    const modules = { namespaces: ["first"], classes: [0], names: ["Tanh"] };
    const known = sources({ graph: { ...graph, modules: { ...graph.modules, ...modules } } });
    const { tint, legend } = colouringOf("class", scene, known);
    expect(tint?.nodes.filter((name) => name !== "")).toEqual(["is-k0"]);
    expect(legend?.entries.map(({ text }) => text)).toEqual(["Tanh"]);
  });

  it("tell dtypes apart, and a box that holds several", () => {
    const dtypes = { names: ["float32", "bfloat16"], nodes: [0, 1, 0, 1] };
    const open = picture();
    const apart = colouringOf("dtype", open.scene, open.sources({ dtypes }));
    expect(apart.tint?.nodes).toEqual(["is-k0", "is-k1", "is-k0", "is-k1"]);
    expect(apart.legend?.entries.map(({ text }) => text)).toEqual(["float32", "bfloat16"]);
    const closed = picture(["first"]);
    const mixed = colouringOf("dtype", closed.scene, closed.sources({ dtypes }));
    expect(mixed.tint?.nodes[closed.scene.drawn[3][0]]).toBe("is-c-mixed");
    expect(mixed.legend?.entries.map(({ text }) => text)).toContain("several in one box");
  });

  it("have no scale for a single value", () => {
    const zero = { name: "is-c-zero", text: "all zeros" };
    const one = { title: "norm", ticks: [{ at: 0.5, text: "18.2" }], entries: [zero] };
    const entries = [{ name: "is-c4", text: "18.2" }, zero];
    expect(withoutScaleOfOne(one)).toEqual({ title: "norm", ticks: null, entries });
    const two = { ...one, ticks: [...one.ticks, { at: 1, text: "20" }] };
    expect(withoutScaleOfOne(two)).toBe(two);
    expect(withoutScaleOfOne({ ...one, ticks: [] }).entries).toEqual([zero]);
  });

  it("are offered only where something is known", () => {
    const { scene, sources } = picture();
    expect(isKnown("gradient", sources({}))).toBe(false);
    expect(isKnown("memory", sources({}))).toBe(false);
    expect(isKnown("module", sources({}))).toBe(true);
    expect(isKnown("module", sources({ tree: null }))).toBe(false);
    expect(colouringOf("gradient", scene, sources({}))).toEqual({ tint: null, legend: null });
  });
});
