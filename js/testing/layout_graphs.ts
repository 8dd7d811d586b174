import { copyShared } from "../layout";
import { makeGraph } from "../layout/graph";
import { addDummies, type Layered, rank, topological } from "../layout/rank";
import type { LayoutInput } from "../layout/types";

/** A graph under construction: nodes by label, edges from a node to its inputs below. */
export class Sketch {
  labels: string[] = [];
  source: number[] = [];
  target: number[] = [];
  shared: number[] = [];

  /** Adds a node with edges to the given ones and returns its number. */
  op(label: string, ...inputs: number[]): number {
    const v = this.labels.push(label) - 1;
    this.shared.push(0);
    for (const w of inputs) this.edge(v, w);
    return v;
  }

  /** Add a leaf with a copy per use. */
  leaf(label: string): number {
    const v = this.op(label);
    this.shared[v] = 1;
    return v;
  }

  edge(from: number, to: number): void {
    this.source.push(from);
    this.target.push(to);
  }

  /** The layout input: boxes as wide as their labels, leaves a little taller. */
  input(): LayoutInput & { labels: string[] } {
    return {
      n: this.labels.length,
      source: Int32Array.from(this.source),
      target: Int32Array.from(this.target),
      width: Float64Array.from(this.labels, (label) => Math.max(36, 7 * label.length + 22)),
      height: Float64Array.from(this.labels, (_, v) => (this.shared[v] ? 44 : 34)),
      shared: Uint8Array.from(this.shared),
      labels: this.labels,
    };
  }
}

/** A repeatable generator of whole numbers. */
export function randomInts(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** addmm(bias, x, W.t()), as nn.Linear records it. */
function linear(g: Sketch, weight: number, bias: number, x?: number): number {
  const inputs = x === undefined ? [bias] : [bias, x];
  return g.op("Addmm", ...inputs, g.op("T", weight));
}

export function chain(n: number): Sketch {
  const g = new Sketch();
  let v = g.op("x");
  for (let i = 1; i < n; i++) v = g.op("Tanh", v);
  return g;
}

/** (y1 - y2)**2 with y1 = x + 1, y2 = 2 * x: one leaf, two paths. */
export function diamond(): Sketch {
  const g = new Sketch();
  const x = g.op("x");
  g.op("Pow", g.op("Sub", g.op("Add", x), g.op("Mul", x)));
  return g;
}

/** h = w * x + b */
export function affine(): Sketch {
  const g = new Sketch();
  const [w, x, b] = [g.leaf("w"), g.leaf("x"), g.leaf("b")];
  g.op("Add", g.op("Mul", w, x), b);
  return g;
}

/** x * x: two edges between the same nodes. */
export function square(): Sketch {
  const g = new Sketch();
  const y = g.op("Sin", g.op("x"));
  g.op("Mul", y, y);
  return g;
}

/** One node over k others. */
export function fan(k: number): Sketch {
  const g = new Sketch();
  const leaves = Array.from({ length: k }, (_, i) => g.op(`x${i}`));
  g.op("Stack", ...leaves);
  return g;
}

export function mlp(layers: number): Sketch {
  const g = new Sketch();
  let h = linear(g, g.leaf("0.weight"), g.leaf("0.bias"));
  for (let i = 1; i < layers; i++) {
    h = linear(g, g.leaf(`${i}.weight`), g.leaf(`${i}.bias`), g.op("Relu", h));
  }
  g.op("MseLoss", h);
  return g;
}

export function lenet(): Sketch {
  const g = new Sketch();
  const conv = (name: string, ...x: number[]) =>
    g.op(
      "MaxPool2D",
      g.op("Relu", g.op("Convolution", ...x, g.leaf(`${name}.weight`), g.leaf(`${name}.bias`))),
    );
  let h = g.op("View", conv("conv2", conv("conv1")));
  h = g.op("Relu", linear(g, g.leaf("fc1.weight"), g.leaf("fc1.bias"), h));
  h = g.op("Relu", linear(g, g.leaf("fc2.weight"), g.leaf("fc2.bias"), h));
  h = linear(g, g.leaf("fc3.weight"), g.leaf("fc3.bias"), h);
  g.op("NllLoss", g.op("LogSoftmax", h));
  return g;
}

/** Residual blocks; every second one has a convolution on its skip. */
export function resnet(blocks: number): Sketch {
  const g = new Sketch();
  const conv = (...x: number[]) =>
    g.op(
      "NativeBatchNorm",
      g.op("Convolution", ...x, g.leaf("weight")),
      g.leaf("bn.weight"),
      g.leaf("bn.bias"),
    );
  let h = g.op("Relu", conv());
  for (let i = 0; i < blocks; i++) {
    const body = conv(g.op("Relu", conv(g.op("Relu", conv(h)))));
    h = g.op("Relu", g.op("Add", body, i % 2 ? h : conv(h)));
  }
  g.op("NllLoss", linear(g, g.leaf("fc.weight"), g.leaf("fc.bias"), g.op("Mean", h)));
  return g;
}

export function unet(depth: number): Sketch {
  const g = new Sketch();
  const conv = (...x: number[]) =>
    g.op("Relu", g.op("Convolution", ...x, g.leaf("weight"), g.leaf("bias")));
  const skips = [conv()];
  for (let i = 1; i < depth; i++) skips.push(conv(g.op("MaxPool", skips[i - 1])));
  let h = conv(g.op("MaxPool", skips[depth - 1]));
  for (let i = depth - 1; i >= 0; i--) h = conv(g.op("Cat", skips[i], g.op("Upsample", h)));
  g.op("MseLoss", h);
  return g;
}

/** tanh(W x + U h) per step, weights shared between the steps. */
export function rnn(steps: number): Sketch {
  const g = new Sketch();
  const [w, b, u, c] = [g.leaf("w_ih"), g.leaf("b_ih"), g.leaf("w_hh"), g.leaf("b_hh")];
  let h: number | undefined;
  for (let i = 0; i < steps; i++)
    h = g.op("Tanh", g.op("Add", linear(g, w, b), linear(g, u, c, h)));
  g.op("Sum", h as number);
  return g;
}

/** An LSTM cell written out and unrolled, weights shared between the steps. */
export function lstm(steps: number): Sketch {
  const g = new Sketch();
  const [w, b, u, d] = [g.leaf("w_ih"), g.leaf("b_ih"), g.leaf("w_hh"), g.leaf("b_hh")];
  let h: number | undefined;
  let c: number | undefined;
  for (let i = 0; i < steps; i++) {
    const gates = g.op("Split", g.op("Add", linear(g, w, b), linear(g, u, d, h)));
    const [input, forget, cell, output] = ["Sigmoid", "Sigmoid", "Tanh", "Sigmoid"].map((name) =>
      g.op(name, gates),
    );
    const kept = c === undefined ? g.op("Mul", forget) : g.op("Mul", forget, c);
    c = g.op("Add", kept, g.op("Mul", input, cell));
    h = g.op("Mul", output, g.op("Tanh", c));
  }
  g.op("Sum", h as number);
  return g;
}

/** A GRU cell written out and unrolled. */
export function gru(steps: number): Sketch {
  const g = new Sketch();
  const [w, b, u, d] = [g.leaf("w_ih"), g.leaf("b_ih"), g.leaf("w_hh"), g.leaf("b_hh")];
  let h = g.leaf("h0");
  for (let i = 0; i < steps; i++) {
    const x = g.op("Split", linear(g, w, b));
    const y = g.op("Split", linear(g, u, d, h));
    const reset = g.op("Sigmoid", g.op("Add", x, y));
    const update = g.op("Sigmoid", g.op("Add", x, y));
    const candidate = g.op("Tanh", g.op("Add", x, g.op("Mul", reset, y)));
    h = g.op("Add", candidate, g.op("Mul", update, g.op("Sub", h, candidate)));
  }
  g.op("Sum", h);
  return g;
}

/** Runge-Kutta steps of y' = tanh(W y). */
export function rk4(steps: number): Sketch {
  const g = new Sketch();
  const [w, b] = [g.leaf("weight"), g.leaf("bias")];
  const f = (y: number) => g.op("Tanh", linear(g, w, b, y));
  let y = g.leaf("y0");
  for (let i = 0; i < steps; i++) {
    const k1 = f(y);
    const k2 = f(g.op("Add", y, g.op("Mul", k1)));
    const k3 = f(g.op("Add", y, g.op("Mul", k2)));
    const k4 = f(g.op("Add", y, g.op("Mul", k3)));
    const sum = g.op("Add", g.op("Add", g.op("Add", k1, g.op("Mul", k2)), g.op("Mul", k3)), k4);
    y = g.op("Add", y, g.op("Mul", sum));
  }
  g.op("Sum", y);
  return g;
}

export function transformer(layers: number): Sketch {
  const g = new Sketch();
  const lin = (x: number) =>
    g.op("View", linear(g, g.leaf("weight"), g.leaf("bias"), g.op("View", x)));
  const norm = (x: number) => g.op("NativeLayerNorm", x, g.leaf("weight"), g.leaf("bias"));
  const heads = (x: number) => g.op("Transpose", g.op("View", lin(x)));
  let h = g.op(
    "Add",
    g.op("Embedding", g.leaf("tok.weight")),
    g.op("Embedding", g.leaf("pos.weight")),
  );
  for (let i = 0; i < layers; i++) {
    const x = norm(h);
    const scores = g.op("Div", g.op("Bmm", heads(x), g.op("Transpose", heads(x))));
    const mixed = g.op("Bmm", g.op("Softmax", scores), heads(x));
    h = g.op("Add", h, lin(g.op("View", g.op("Transpose", mixed))));
    h = g.op("Add", h, lin(g.op("Gelu", lin(norm(h)))));
  }
  g.op("NllLoss", g.op("LogSoftmax", lin(norm(h))));
  return g;
}

/** Dense blocks: each layer reads all before it. */
export function densenet(layers: number): Sketch {
  const g = new Sketch();
  const features = [g.op("Convolution", g.leaf("weight"))];
  for (let i = 0; i < layers; i++) {
    const norm = g.op(
      "NativeBatchNorm",
      g.op("Cat", ...features),
      g.leaf("weight"),
      g.leaf("bias"),
    );
    features.push(g.op("Convolution", g.op("Relu", norm), g.leaf("weight")));
  }
  g.op("Mean", g.op("Cat", ...features));
  return g;
}

/** An MLP's forward chain, its backward chain, and the saved activations between them. */
export function doubleBackward(layers: number): Sketch {
  const g = new Sketch();
  const weights = Array.from({ length: layers }, (_, i) => g.leaf(`${i}.weight`));
  let h = g.leaf("x");
  const saved: number[] = [];
  for (const w of weights) {
    h = g.op("Tanh", g.op("Mm", h, g.op("T", w)));
    saved.push(h);
  }
  let grad = g.op("Expand", g.op("Sum", h));
  for (let i = layers - 1; i >= 0; i--) {
    grad = g.op("Mm", g.op("TanhBackward", grad, saved[i]), g.op("T", weights[i]));
  }
  g.op("Add", g.op("Pow", grad), g.op("Sum", h));
  return g;
}

/** Layers of equal width, each node with one or two edges down, some of them longer. */
export function randomLayered(n: number, perRank: number, seed: number): Sketch {
  const g = new Sketch();
  const random = randomInts(seed);
  for (let v = 0; v < n; v++) {
    const inputs: number[] = [];
    const row = Math.floor(v / perRank);
    for (let k = 1 + random(2); k > 0 && row > 0; k--) {
      const back = random(10) === 0 ? 1 + random(Math.min(row, 5)) : 1;
      const near = Math.max(0, Math.min(perRank - 1, (v % perRank) + random(7) - 3));
      inputs.push((row - back) * perRank + near);
    }
    g.op("op", ...inputs);
  }
  return g;
}

/** A ranked graph from its edges. */
export function layered(n: number, edges: [number, number][], ranks?: number[]): Layered {
  const graph = makeGraph(
    n,
    Int32Array.from(edges, ([a]) => a),
    Int32Array.from(edges, ([, b]) => b),
  );
  return addDummies(graph, ranks ? Int32Array.from(ranks) : rank(graph, topological(graph)));
}

/** A ranked graph from a sketch, with copied leaves. */
export function layeredSketch(sketch: Sketch): Layered {
  const { n, source, target, shared } = sketch.input();
  const { edgeTarget, owner } = copyShared(n, source, target, shared);
  const graph = makeGraph(owner.length, Int32Array.from(source), edgeTarget);
  return addDummies(graph, rank(graph, topological(graph)));
}
