import { expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import { firstFolding } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { foldedScene } from "../pipeline";
import { tableMeasure } from "../text/metrics";
import type { Scene } from "./scene";

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
