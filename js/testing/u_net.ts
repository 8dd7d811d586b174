import { Builder } from "../demo/build_graph";
import type { GraphModel } from "../wire";

const SIGNS: Readonly<Record<string, string>> = {
  ConvolutionBackward0: "conv2d 3×3",
  MaxPool2DWithIndicesBackward0: "max pool 2×2",
  CatBackward0: "cat",
};

/**
 * A U-Net: lists of blocks down and up, concatenations, and pooling outside all modules, or in one of this name. With
 * `isFlat`, a single module calls every layer.
 */
export function uNet(levels: number, pooling = "", isFlat = false): GraphModel {
  const g = new Builder();
  const shape = [2, 8, 4, 4];
  const block = (path: string, input: number) => {
    let x = input;
    for (const name of ["conv1", "conv2"]) {
      g.namespace = isFlat ? `${path}/${name}`.replaceAll("/", "_") : `${path}/${name}`;
      const weight = g.leaf(`${path}/${name}.weight`.replaceAll("/", "."), [8, 8, 3, 3]);
      const made = g.op("ConvolutionBackward0", shape, { input: x, weight });
      g.namespace = isFlat ? "" : path;
      x = g.op("ReluBackward0", shape, { self: made });
    }
    g.namespace = "";
    return x;
  };
  let x = block("inc", g.leaf("x", shape));
  const skips: number[] = [];
  for (let i = 0; i < levels; i++) {
    skips.push(x);
    g.namespace = pooling;
    const pooled = g.op("MaxPool2DWithIndicesBackward0", shape, { self: x });
    x = block(`downs/${i}`, pooled);
  }
  for (let i = 0; i < levels; i++) {
    g.namespace = isFlat ? `ups_${i}` : `ups/${i}`;
    const up = g.op("ConvolutionBackward0", shape, {
      input: x,
      weight: g.leaf(`ups.${i}.weight`, [8, 8, 2, 2]),
    });
    g.namespace = "";
    x = block(`convs/${i}`, g.op("CatBackward0", shape, { a: skips.pop() ?? 0, b: up }));
  }
  g.namespace = "";
  const graph = g.graph([g.op("MeanBackward0", [], { self: x }, "loss"), "loss"]);
  return {
    ...graph,
    nodes: graph.nodes.map((node) => ({ ...node, sign: SIGNS[node.op] ?? null })),
  };
}

/** A block whose layers take all results before them, concatenated. */
export function denseNet(layers: number): GraphModel {
  const g = new Builder();
  const made = [g.leaf("x", [4])];
  for (let i = 0; i < layers; i++) {
    g.namespace = "";
    const all = Object.fromEntries(made.map((id, k) => [`t${k}`, id]));
    const cat = g.op("CatBackward0", [4], all);
    g.namespace = `layers/${i}`;
    const weight = g.leaf(`layers.${i}.weight`, [4, 4]);
    const linear = g.op("MmBackward0", [4], { self: cat, mat2: weight });
    made.push(g.op("ReluBackward0", [4], { self: linear }));
  }
  g.namespace = "";
  const all = Object.fromEntries(made.map((id, k) => [`t${k}`, id]));
  const cat = g.op("CatBackward0", [4], all);
  return g.graph([g.op("MeanBackward0", [], { self: cat }, "loss"), "loss"]);
}
