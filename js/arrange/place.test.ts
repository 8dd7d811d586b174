import { expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { firstFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import type { Scene } from "../scene/scene";
import { fitView, LEGIBLE } from "../scene/views";
import { tableMeasure } from "../text/metrics";
import { foldedScene } from "./pipeline";

/** An encoder and a decoder of 6 layers in one module, whose layers all read the encoder's output; then a head. */
function encoderDecoder(embedding: string) {
  const g = new Builder();
  const layer = (path: string, inputs: Record<string, number>) => {
    g.namespace = path;
    const weight = g.leaf(`${path}.weight`.replaceAll("/", "."), [8, 8]);
    const made = g.op("MmBackward0", [2, 8], { ...inputs, weight });
    return g.op("TanhBackward0", [2, 8], { self: made });
  };
  const stack = (path: string, more: Record<string, number>) => {
    let x = layer(`${path}/${embedding}`, { x: g.leaf(`${path}.x`, [2, 8]) });
    x = layer(`${path}/layernorm_embedding`, { x });
    x = layer(`${path}/dropout`, { x });
    for (let i = 0; i < 6; i++) x = layer(`${path}/layers/${i}`, { x, ...more });
    return layer(`${path}/layer_norm`, { x });
  };
  const memory = stack("model/encoder", {});
  const head = layer("lm_head", { x: stack("model/decoder", { memory }) });
  g.namespace = "";
  return g.graph([g.op("MeanBackward0", [], { self: head }, "loss"), "loss"]);
}

/** The corners of a line whose corners are right angles. */
function bends({ curve }: Scene["edges"][number]): number {
  const sides: boolean[] = [];
  for (let i = 6; i < curve.length; i += 6) {
    const [dx, dy] = [Math.abs(curve[i] - curve[i - 6]), Math.abs(curve[i + 1] - curve[i - 5])];
    const isAlong = dy < 0.5;
    if ((isAlong || dx < 0.5) && isAlong !== sides.at(-1)) sides.push(isAlong);
  }
  return sides.length - 1;
}

it.each([
  ["embed", 666],
  ["embed_tokens", 666],
  ["embed_tokens", 766],
  ["a_long_embedding", 766],
  ["embed_tokens", 966],
])(
  "takes the memory of an encoder into its decoder with at most 4 bends, after %s, in %i px",
  (name, width) => {
    const grouped = groupedGraph(encoderDecoder(name));
    const open = new Set(["model", "model/encoder", "model/decoder"]);
    const folding = { ...firstFolding(grouped.tree), open, hidesPlumbing: true };
    const room = { width, height: 680, tallest: 860 };
    const { edges } = foldedScene(grouped, folding, "left", tableMeasure, { room });
    expect(Math.max(...edges.map(bends))).toBeLessThanOrEqual(4);
  },
);

/** A model of four layers with a residual around each of their two halves. */
function decoder(letters: number) {
  const g = new Builder();
  const layer = (path: string, self: number) => {
    g.namespace = path;
    const weight = g.leaf(`${path}.weight`.replaceAll("/", "."), [8, 8]);
    return g.op("TanhBackward0", [2, 8], { self: g.op("MmBackward0", [2, 8], { self, weight }) });
  };
  const name = "part_of_a_layer_with_a_long_name".slice(0, letters);
  let x = layer("model/embed_tokens", g.leaf("x", [2, 8]));
  for (let i = 0; i < 4; i++) {
    const path = `model/layers/${i}`;
    const attention = layer(`${path}/attention`, layer(`${path}/${name}_1`, x));
    g.namespace = path;
    const sum = g.op("AddBackward0", [2, 8], { self: x, other: attention });
    const gate = layer(`${path}/mlp/gate`, layer(`${path}/${name}_2`, sum));
    const experts = layer(`${path}/mlp/${name}_3`, gate);
    g.namespace = path;
    x = g.op("AddBackward0", [2, 8], { self: sum, other: experts });
  }
  const head = layer("lm_head", layer("model/norm", x));
  g.namespace = "";
  return g.graph([g.op("MeanBackward0", [], { self: head }, "loss"), "loss"]);
}

it.each([
  [12, 1],
  [16, 1],
  [19, 1],
  [22, 1],
])("draws an open layer beside a strip with names of %i letters in %i rows", (letters, rows) => {
  const grouped = groupedGraph(decoder(letters));
  const open = new Set(["model", "model/layers", "model/layers/3", "model/layers/3/mlp"]);
  const folding = { ...firstFolding(grouped.tree), open, hidesPlumbing: true };
  const room = { width: 1366, height: 680, tallest: 860 };
  const scene = foldedScene(grouped, folding, "left", tableMeasure, { room });
  expect(fitView(scene, room).k).toBeGreaterThanOrEqual(LEGIBLE);
  const inside = scene.nodes.filter(({ id }) => {
    const { namespace } = grouped.graph.nodes[id];
    return namespace?.startsWith("model/layers/3");
  });
  expect(inside.length).toBe(7);
  expect(new Set(inside.map(({ y }) => Math.round(y))).size).toBe(rows);
});
