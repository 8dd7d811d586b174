import { Builder } from "../demo/build_graph";
import type { GraphModel } from "../wire";

const SIGNS: Readonly<Record<string, string>> = {
  ConvolutionBackward0: "conv2d 3×3 /2",
  NativeBatchNormBackward0: "batch norm",
  ReluBackward0: "relu",
  AddBackward0: "+",
  MulBackward0: "×",
  MeanBackward0: "mean",
};

/** The other operand of a block's last sum. */
export type Shortcut = "identity" | "view" | "gate" | "downsample" | "none";

/** Blocks of two convolutions with normalisations, a shortcut, and a relu after the sum, in modules. */
export function residualNet(blocks: readonly Shortcut[]): GraphModel {
  const g = new Builder();
  const layer = (path: string, name: string, x: number, isActive: boolean) => {
    const full = `${path}/${name}`;
    const dotted = full.replaceAll("/", ".");
    g.namespace = full;
    const made = g.op("ConvolutionBackward0", [2, 8, 4, 4], {
      input: x,
      weight: g.leaf(`${dotted}.weight`, [8, 8, 3, 3]),
    });
    g.namespace = `${path}/bn_${name}`;
    const normed = g.op("NativeBatchNormBackward0", [2, 8, 4, 4], {
      input: made,
      weight: g.leaf(`${path.replaceAll("/", ".")}.bn_${name}.weight`, [8]),
    });
    g.namespace = path;
    return isActive ? g.op("ReluBackward0", [2, 8, 4, 4], { self: normed }) : normed;
  };
  let x = layer("stem", "conv", g.leaf("x", [2, 8, 8, 8]), true);
  blocks.forEach((shortcut, i) => {
    const path = `blocks/${i}`;
    const result = layer(path, "conv2", layer(path, "conv1", x, true), false);
    const past =
      shortcut === "view"
        ? g.op("ViewBackward0", [2, 8, 4, 4], { self: x })
        : shortcut === "downsample"
          ? layer(path, "downsample", x, false)
          : x;
    g.namespace = path;
    const sum =
      shortcut === "none"
        ? result
        : g.op(shortcut === "gate" ? "MulBackward0" : "AddBackward0", [2, 8, 4, 4], {
            self: result,
            other: past,
          });
    x = g.op("ReluBackward0", [2, 8, 4, 4], { self: sum });
  });
  g.namespace = "";
  const graph = g.graph([g.op("MeanBackward0", [], { self: x }, "loss"), "loss"]);
  return {
    ...graph,
    modules: { namespaces: ["stem/conv"], classes: [0], names: ["Conv2d"] },
    nodes: graph.nodes.map((node) => ({ ...node, sign: SIGNS[node.op] ?? null })),
  };
}
