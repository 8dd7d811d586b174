import type { GraphModel } from "../wire";
import { Builder } from "./build_graph";
import { cutInGraph, cutOutside } from "./cuts";

/** h = w * x + b */
function example(): GraphModel {
  const g = new Builder();
  const [w, x, b] = ["w", "x", "b"].map((name) => g.leaf(name, [1]));
  const h = g.op(
    "AddBackward0",
    [1],
    { self: g.op("MulBackward0", [1], { self: w, other: x }), other: b },
    "h",
  );
  return g.graph([h, "h"]);
}

/** y = x * x + 3 * x: one leaf, several uses, a constant. */
function reuse(): GraphModel {
  const g = new Builder();
  const x = g.leaf("x", []);
  const square = g.op("MulBackward0", [], { self: x, other: x }, "square");
  const y = g.op(
    "AddBackward0",
    [],
    { self: square, other: g.op("MulBackward0", [], { self: x, other: null }) },
    "y",
  );
  return g.graph([y, "y"]);
}

/** x = 3; y1 = x + 1; y2 = 2 * x; loss = (y1 - y2) ** 2: two paths to one leaf. */
function twoWays(): GraphModel {
  const g = new Builder();
  const x = g.leaf("x", []);
  const y1 = g.op("AddBackward0", [], { self: x, other: null }, "y1");
  const y2 = g.op("MulBackward0", [], { self: null, other: x }, "y2");
  const difference = g.op("SubBackward0", [], { self: y1, other: y2 });
  return g.graph([g.op("PowBackward0", [], { self: difference, exponent: null }, "loss"), "loss"]);
}

/** A small convolutional network with its loss. */
function lenet(): GraphModel {
  const g = new Builder();
  const linear = (name: string, x: number, n: number, m: number) =>
    g.op("AddmmBackward0", [64, m], {
      self: g.leaf(`${name}.bias`, [m]),
      mat1: x,
      mat2: g.op("TBackward0", [n, m], { self: g.leaf(`${name}.weight`, [m, n]) }),
    });
  const block = (name: string, x: number | null, n: number, m: number, size: number) => {
    const conv = g.op("ConvolutionBackward0", [64, m, size, size], {
      input: x,
      weight: g.leaf(`${name}.conv.weight`, [m, n, 5, 5]),
      bias: g.leaf(`${name}.conv.bias`, [m]),
    });
    const norm = g.op("NativeBatchNormBackward0", [64, m, size, size], {
      input: conv,
      weight: g.leaf(`${name}.norm.weight`, [m]),
      bias: g.leaf(`${name}.norm.bias`, [m]),
    });
    const relu = g.op("ReluBackward0", [64, m, size, size], { self: norm });
    return g.op("MaxPool2DWithIndicesBackward0", [64, m, size / 2, size / 2], { self: relu });
  };
  let x = block("features.0", null, 1, 6, 28);
  x = block("features.1", x, 6, 16, 12);
  x = block("features.2", x, 16, 32, 4);
  x = g.op("ViewBackward0", [64, 128], { self: x }, "flat");
  x = g.op("ReluBackward0", [64, 120], { self: linear("fc1", x, 128, 120) });
  x = g.op("ReluBackward0", [64, 84], { self: linear("fc2", x, 120, 84) });
  const logits = linear("fc3", x, 84, 10);
  const scaled = g.op("DivBackward0", [64, 10], { self: logits, other: null }, "logits");
  const loss = g.op(
    "NllLossBackward0",
    [],
    { self: g.op("LogSoftmaxBackward0", [64, 10], { self: scaled }) },
    "loss",
  );
  return g.graph([loss, "loss"]);
}

/** Names that contain markup, are very long, or are empty. */
function hostile(): GraphModel {
  const g = new Builder();
  const long = `very_${"long_".repeat(38)}name`;
  const a = g.leaf("<img src=x onerror=alert(1)>", [2, 3]);
  const b = g.leaf(long, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]);
  const c = g.leaf("重み行列🧮\n\u202Eright to left", []);
  const d = g.leaf(null, [0]);
  const custom = g.op(
    "MyVeryOwnFunctionWithAnUnreasonablyLongClassNameBackward",
    [2, 3],
    { a, b, c: null, d: null, e: null, f: null, g: null },
    "<b>bold</b>",
  );
  const index = g.op("IndexPutBackward0", null, {
    self: custom,
    values: c,
    indices: null,
    accumulate: null,
  });
  const end = g.op(
    "SumBackward1",
    [],
    { self: g.op("CatBackward0", [4], { "tensors[0]": index, "tensors[1]": d }) },
    long,
  );
  return g.graph([end, long], [custom, "<b>bold</b>"], [d, null]);
}

/** An RNN unrolled: weights used at every step, and a loss at each. */
function unrolled(steps: number): GraphModel {
  const g = new Builder();
  const wx = g.leaf("rnn.weight_ih", [32, 16]);
  const wh = g.leaf("rnn.weight_hh", [32, 32]);
  const bias = g.leaf("rnn.bias", [32]);
  let state: number | null = null;
  let total: number | null = null;
  for (let t = 0; t < steps; t++) {
    const input = g.op("AddmmBackward0", [8, 32], {
      self: bias,
      mat1: null,
      mat2: g.op("TBackward0", [16, 32], { self: wx }),
    });
    const sum: number =
      state === null
        ? input
        : g.op("AddBackward0", [8, 32], {
            self: input,
            other: g.op("MmBackward0", [8, 32], {
              self: state,
              mat2: g.op("TBackward0", [32, 32], { self: wh }),
            }),
          });
    state = g.op("TanhBackward0", [8, 32], { self: sum }, `h${t + 1}`);
    const loss: number = g.op("MeanBackward0", [], { self: state });
    total = total === null ? loss : g.op("AddBackward0", [], { self: total, other: loss });
  }
  return g.graph([total ?? 0, "loss"], [state ?? 0, "last"]);
}

export const MODELS: Record<string, () => GraphModel> = {
  "h = w * x + b": example,
  "x used three times": reuse,
  "(x + 1 - 2 * x) ** 2": twoWays,
  "w * x.detach() + c * x + b": cutInGraph,
  "a detached alias": cutOutside,
  LeNet: lenet,
  "hostile names": hostile,
  "RNN, 40 steps": () => unrolled(40),
  "RNN, 200 steps": () => unrolled(200),
  "RNN, 1,500 steps": () => unrolled(1500),
};
