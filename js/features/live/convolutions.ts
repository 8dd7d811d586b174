import type { Arguments, Call } from "./pointwise";
import { copyOf, places, product, storing, type Tensor, write } from "./tensors";

/** Which input, weight and output belong together; row-major places. */
type Visit = (input: number, weight: number, output: number) => void;

interface Windows {
  stride: readonly number[];
  padding: readonly number[];
  dilation: readonly number[];
}

/** One value per dimension. */
function each(value: unknown, count: number, otherwise: readonly number[] = []): number[] {
  const given = (Array.isArray(value) ? value : [value]) as number[];
  if (given.length === 0) return [...otherwise];
  return given.length === count ? given : Array.from({ length: count }, () => given[0]);
}

/** Visit the places that windows over `input` read: for each output, each tap of the window inside of the input. */
function windows(
  input: readonly number[],
  kernel: readonly number[],
  output: readonly number[],
  { stride, padding, dilation }: Windows,
  visit: Visit,
): void {
  const [taps, outs] = [product(kernel), product(output)];
  for (let o = 0; o < outs; o++)
    for (let k = 0; k < taps; k++) {
      let place = 0;
      let [restO, restK] = [o, k];
      let scale = 1;
      let isInside = true;
      for (let dim = input.length - 1; dim >= 0 && isInside; dim--) {
        const at =
          (restO % output[dim]) * stride[dim] -
          padding[dim] +
          (restK % kernel[dim]) * dilation[dim];
        isInside = at >= 0 && at < input[dim];
        place += at * scale;
        scale *= input[dim];
        restO = Math.floor(restO / output[dim]);
        restK = Math.floor(restK / kernel[dim]);
      }
      if (isInside) visit(place, k, o);
    }
}

/**
 * Visit the terms of a convolution. A transposed one is the same with input and output exchanged, and so is its weight.
 */
function terms(args: Arguments, given: Tensor, gives: readonly number[], visit: Visit): void {
  const weight = args.weight as Tensor;
  const isTransposed = args.transposed === true;
  const [small, large] = isTransposed ? [given.shape, gives] : [gives, given.shape];
  const kernel = weight.shape.slice(2);
  const count = kernel.length;
  const shaped = {
    stride: each(args.stride, count),
    padding: each(args.padding, count),
    dilation: each(args.dilation, count),
  };
  const groups = args.groups as number;
  const [batch, outs] = small;
  const ins = large[1];
  const [inSize, outSize] = [product(large.slice(2)), product(small.slice(2))];
  const [inGroup, outGroup] = [ins / groups, outs / groups];
  const taps = product(kernel);
  windows(large.slice(2), kernel, small.slice(2), shaped, (i, k, o) => {
    for (let n = 0; n < batch; n++)
      for (let out = 0; out < outs; out++) {
        const first = Math.floor(out / outGroup) * inGroup;
        for (let c = 0; c < inGroup; c++) {
          const inner = (n * ins + first + c) * inSize + i;
          const outer = (n * outs + out) * outSize + o;
          const tap = (out * inGroup + c) * taps + k;
          if (isTransposed) visit(outer, tap, inner);
          else visit(inner, tap, outer);
        }
      }
  });
}

const convolution: Call = (args, [out]) => {
  if (!out) return;
  const [input, weight] = [args.input as Tensor, args.weight as Tensor];
  const [values, factors] = [copyOf(input), copyOf(weight)];
  const found = new Float64Array(product(out.shape));
  terms(args, input, out.shape, (i, k, o) => {
    found[o] += values[i] * factors[k];
  });
  if (args.bias) {
    const bias = copyOf(args.bias as Tensor);
    const size = product(out.shape.slice(2));
    for (let o = 0; o < found.length; o++) found[o] += bias[Math.floor(o / size) % bias.length];
  }
  write(out, found);
};

const convolutionBackward: Call = (args, [ofInput, ofWeight, ofBias]) => {
  const [grad, input, weight] = [args.grad_output, args.input, args.weight] as Tensor[];
  const [grads, values, factors] = [copyOf(grad), copyOf(input), copyOf(weight)];
  const forInput = new Float64Array(values.length);
  const forWeight = new Float64Array(factors.length);
  terms(args, input, grad.shape, (i, k, o) => {
    forInput[i] += grads[o] * factors[k];
    forWeight[k] += grads[o] * values[i];
  });
  if (ofInput) write(ofInput, forInput);
  if (ofWeight) write(ofWeight, forWeight);
  if (!ofBias) return;
  const forBias = new Float64Array(grad.shape[1]);
  const size = product(grad.shape.slice(2));
  grads.forEach((one, o) => {
    forBias[Math.floor(o / size) % forBias.length] += one;
  });
  write(ofBias, forBias);
};

/** Visit the windows of a pool over the last two dimensions; `image` counts the images. */
function pooled(
  args: Arguments,
  input: readonly number[],
  output: readonly number[],
  visit: (image: number, input: number, output: number) => void,
): void {
  const kernel = each(args.kernel_size, 2);
  const shaped = {
    stride: each(args.stride ?? [], 2, kernel),
    padding: each(args.padding ?? 0, 2),
    dilation: each(args.dilation ?? 1, 2),
  };
  const [inSize, outSize] = [product(input.slice(-2)), product(output.slice(-2))];
  const images = product(output.slice(0, -2));
  windows(input.slice(-2), kernel, output.slice(-2), shaped, (i, _, o) => {
    for (let image = 0; image < images; image++)
      visit(image, image * inSize + i, image * outSize + o);
  });
}

const maxPool: Call = (args, [out, indices]) => {
  const self = args.self as Tensor;
  if (!out) return;
  const values = copyOf(self);
  const size = product(self.shape.slice(-2));
  const best = new Float64Array(product(out.shape)).fill(-1);
  pooled(args, self.shape, out.shape, (_, i, o) => {
    const before = values[best[o]];
    if (best[o] < 0 || values[i] > before || Number.isNaN(values[i])) best[o] = i;
  });
  const to = places(out);
  const store = storing(out);
  for (let o = 0; o < to.length; o++)
    store(to[o], best[o] < 0 ? Number.NEGATIVE_INFINITY : values[best[o]]);
  if (indices)
    write(
      indices,
      best.map((place) => place % size),
    );
};

const maxPoolBackward: Call = (args, [out]) => {
  if (!out) return;
  const [grad, indices] = [args.grad_output as Tensor, args.indices as Tensor];
  const [grads, chosen] = [copyOf(grad), copyOf(indices)];
  const found = new Float64Array(product(out.shape));
  const [inSize, outSize] = [product(out.shape.slice(-2)), product(grad.shape.slice(-2))];
  grads.forEach((one, o) => {
    found[Math.floor(o / outSize) * inSize + chosen[o]] += one;
  });
  write(out, found);
};

/** For each output of an average, by how many it divides. */
function divisors(args: Arguments, input: readonly number[], output: readonly number[]): number[] {
  const [high, wide] = each(args.kernel_size, 2);
  const [stride, padding] = [each(args.stride ?? [], 2, [high, wide]), each(args.padding ?? 0, 2)];
  const count = (size: number, at: number, dim: number, kernel: number) => {
    const start = at * stride[dim] - padding[dim];
    const pads = args.count_include_pad === false ? 0 : padding[dim];
    return Math.min(start + kernel, size + pads) - Math.max(start, -pads);
  };
  const [rows, columns] = output.slice(-2);
  const [h, w] = input.slice(-2);
  const fixed = args.divisor_override as number | null;
  return Array.from({ length: rows * columns }, (_, o) =>
    fixed === null || fixed === undefined
      ? count(h, Math.floor(o / columns), 0, high) * count(w, o % columns, 1, wide)
      : fixed,
  );
}

const averagePool: Call = (args, [out]) => {
  const self = args.self as Tensor;
  if (!out) return;
  const values = copyOf(self);
  const by = divisors(args, self.shape, out.shape);
  const found = new Float64Array(product(out.shape));
  pooled(args, self.shape, out.shape, (_, i, o) => {
    found[o] += values[i];
  });
  write(
    out,
    found.map((one, o) => one / by[o % by.length]),
  );
};

const averagePoolBackward: Call = (args, [out]) => {
  const grad = args.grad_output as Tensor;
  if (!out) return;
  const grads = copyOf(grad);
  const by = divisors(args, out.shape, grad.shape);
  const found = new Float64Array(product(out.shape));
  pooled(args, out.shape, grad.shape, (_, i, o) => {
    found[i] += grads[o] / by[o % by.length];
  });
  write(out, found);
};

export const CONVOLUTIONS: Readonly<Record<string, Call>> = {
  avg_pool2d: averagePool,
  avg_pool2d_backward: averagePoolBackward,
  convolution,
  convolution_backward: convolutionBackward,
  max_pool2d_with_indices: maxPool,
  max_pool2d_with_indices_backward: maxPoolBackward,
};
