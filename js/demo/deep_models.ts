import type { GraphModel } from "../wire";
import { Builder } from "./build_graph";

/** Run a part of a model inside a named module. */
function within<T>(g: Builder, name: string, part: () => T): T {
  const outer = g.namespace;
  g.namespace = outer === null || outer === "" ? name : `${outer}/${name}`;
  const made = part();
  g.namespace = outer;
  return made;
}

/** nn.Linear on a batch of sequences, with the views that torch makes. */
function linear(g: Builder, name: string, x: number | null, n: number, m: number): number {
  return within(g, name, () => {
    const prefix = (g.namespace ?? "").replaceAll("/", ".");
    const flat = x === null ? null : g.op("ViewBackward0", [256, n], { self: x });
    const product = g.op("AddmmBackward0", [256, m], {
      self: g.leaf(`${prefix}.bias`, [m]),
      mat1: flat,
      mat2: g.op("TBackward0", [n, m], { self: g.leaf(`${prefix}.weight`, [m, n]) }),
    });
    return g.op("ViewBackward0", [8, 32, m], { self: product });
  });
}

function norm(g: Builder, name: string, x: number): number {
  return within(g, name, () => {
    const prefix = (g.namespace ?? "").replaceAll("/", ".");
    return g.op("NativeLayerNormBackward0", [8, 32, 64], {
      input: x,
      weight: g.leaf(`${prefix}.weight`, [64]),
      bias: g.leaf(`${prefix}.bias`, [64]),
    });
  });
}

function attention(g: Builder, x: number): number {
  return within(g, "self_attn", () => {
    const heads = (name: string) => {
      const view = g.op("ViewBackward0", [8, 32, 4, 16], { self: linear(g, name, x, 64, 64) });
      const turned = g.op("TransposeBackward0", [8, 4, 32, 16], { self: view });
      const expanded = g.op("ExpandBackward0", [8, 4, 32, 16], { self: turned });
      return g.op("UnsafeViewBackward0", [32, 32, 16], { self: expanded });
    };
    const [q, k, v] = [heads("q_proj"), heads("k_proj"), heads("v_proj")];
    const keys = g.op("TransposeBackward0", [32, 16, 32], { self: k });
    const scores = g.op("BmmBackward0", [32, 32, 32], { self: q, mat2: keys });
    const scaled = g.op("DivBackward0", [32, 32, 32], { self: scores, other: null });
    const weights = g.op("SoftmaxBackward0", [32, 32, 32], { self: scaled });
    const mixed = g.op("BmmBackward0", [32, 32, 16], { self: weights, mat2: v });
    const turned = g.op("TransposeBackward0", [8, 32, 4, 16], {
      self: g.op("ViewBackward0", [8, 4, 32, 16], { self: mixed }),
    });
    const copied = g.op("CloneBackward0", [8, 32, 4, 16], { self: turned });
    return linear(g, "out_proj", g.op("ViewBackward0", [8, 32, 64], { self: copied }), 64, 64);
  });
}

/** A pre-norm transformer encoder with a mean squared error. */
export function transformer(layers: number): GraphModel {
  const g = new Builder();
  g.namespace = "";
  let x = within(g, "embed", () =>
    g.op("EmbeddingBackward0", [8, 32, 64], { weight: g.leaf("embed.weight", [1000, 64]) }),
  );
  x = within(g, "encoder", () => {
    for (let i = 0; i < layers; i++) {
      x = within(g, `layers/${i}`, () => {
        const attended = attention(g, norm(g, "norm1", x));
        const sum = g.op("AddBackward0", [8, 32, 64], { self: x, other: attended });
        const wide = linear(g, "linear1", norm(g, "norm2", sum), 64, 256);
        const active = within(g, "activation", () =>
          g.op("GeluBackward0", [8, 32, 256], { self: wide }),
        );
        const narrow = linear(g, "linear2", active, 256, 64);
        return g.op("AddBackward0", [8, 32, 64], { self: sum, other: narrow });
      });
    }
    return norm(g, "norm", x);
  });
  const logits = linear(g, "head", x, 64, 10);
  const loss = g.op("MseLossBackward0", [], { self: logits, target: null }, "loss");
  return g.graph([loss, "loss"]);
}

/** A residual net: stages of bottleneck blocks, the first of each with a convolution on its skip. */
export function resnet(stages: readonly number[]): GraphModel {
  const g = new Builder();
  g.namespace = "";
  const convolution = (name: string, batchNorm: string, x: number | null, m: number) => {
    const prefix = g.namespace ? `${g.namespace.replaceAll("/", ".")}.` : "";
    const made = within(g, name, () =>
      g.op("ConvolutionBackward0", [8, m, 14, 14], {
        input: x,
        weight: g.leaf(`${prefix}${name}.weight`, [m, m, 3, 3]),
        bias: null,
      }),
    );
    return within(g, batchNorm, () =>
      g.op("NativeBatchNormBackward0", [8, m, 14, 14], {
        input: made,
        weight: g.leaf(`${prefix}${batchNorm}.weight`, [m]),
        bias: g.leaf(`${prefix}${batchNorm}.bias`, [m]),
      }),
    );
  };
  const relu = (x: number) =>
    within(g, "relu", () => g.op("ReluBackward0", [8, 64, 14, 14], { self: x }));
  let x = relu(convolution("conv1", "bn1", null, 64));
  stages.forEach((blocks, s) => {
    for (let i = 0; i < blocks; i++) {
      const before = x;
      x = within(g, `layer${s + 1}/${i}`, () => {
        let y = relu(convolution("conv1", "bn1", before, 64));
        y = relu(convolution("conv2", "bn2", y, 64));
        y = convolution("conv3", "bn3", y, 256);
        const skip =
          i > 0 ? before : within(g, "downsample", () => convolution("0", "1", before, 256));
        return relu(g.op("AddBackward0", [8, 256, 14, 14], { self: y, other: skip }));
      });
    }
  });
  const pooled = g.op("ViewBackward0", [8, 256], {
    self: g.op("MeanBackward1", [8, 256, 1, 1], { self: x }),
  });
  const logits = within(g, "fc", () =>
    g.op("AddmmBackward0", [8, 10], {
      self: g.leaf("fc.bias", [10]),
      mat1: pooled,
      mat2: g.op("TBackward0", [256, 10], { self: g.leaf("fc.weight", [10, 256]) }),
    }),
  );
  return g.graph([g.op("NllLossBackward0", [], { self: logits }, "loss"), "loss"]);
}

/** A long chain of operations. */
export function chain(length: number): GraphModel {
  const g = new Builder();
  let x = g.leaf("x", [4]);
  for (let i = 0; i < length; i++)
    x = g.op(i % 2 ? "TanhBackward0" : "MulBackward0", [4], { self: x });
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

/** Three linear layers in a sequence, watched. */
export function perceptron(): GraphModel {
  const g = new Builder();
  g.namespace = "";
  let x: number | null = null;
  for (let i = 0; i < 3; i++) {
    x = linear(g, `net/${2 * i}`, x, 64, 64);
    if (i < 2) x = within(g, `net/${2 * i + 1}`, () => g.op("ReluBackward0", [8, 64], { self: x }));
  }
  return g.graph([g.op("MseLossBackward0", [], { self: x }, "loss"), "loss"]);
}

/** Models with modules, and large ones. */
export const DEEP_MODELS: Record<string, () => GraphModel> = {
  "perceptron, watched": perceptron,
  "transformer, 12 layers": () => transformer(12),
  "transformer, 48 layers": () => transformer(48),
  "transformer, 160 layers": () => transformer(160),
  "ResNet-152": () => resnet([3, 8, 36, 3]),
  "chain of 2,000": () => chain(2000),
};
