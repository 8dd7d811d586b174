import type { Arguments, Call } from "./pointwise";
import {
  copyOf,
  dimensions,
  places,
  product,
  reducedPlaces,
  storing,
  type Tensor,
  write,
} from "./tensors";

/** Reduce the numbers of some dimensions to one. */
function reduction(reduce: (values: Float64Array) => number): Call {
  return (args, [out]) => {
    const self = args.self as Tensor;
    if (!out) return;
    const { first, steps } = reducedPlaces(self, dimensions(self, args.dim));
    const values = new Float64Array(steps.length);
    const at = places(out);
    const store = storing(out);
    for (let i = 0; i < first.length; i++) {
      for (let j = 0; j < steps.length; j++) values[j] = self.data[first[i] + steps[j]];
      store(at[i], reduce(values));
    }
  };
}

const sum = (values: Float64Array) => values.reduce((all, value) => all + value, 0);

/** The place of the first largest number, or of the first NaN. */
function largest(values: Float64Array): number {
  let best = 0;
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) return i;
    if (values[i] > values[best]) best = i;
  }
  return best;
}

const negated = (values: Float64Array) => values.map((value) => -value);
const smallest = (values: Float64Array) => largest(negated(values));

/** The extreme numbers, and where they are if torch gives that, too. */
function extreme(find: (values: Float64Array) => number): Call {
  return (args, [out, indices]) => {
    reduction((values) => values[find(values)])(args, [out]);
    if (indices) reduction(find)(args, [indices]);
  };
}

/** Fold the numbers along a dimension, and store each step. */
function cumulative(start: number, fold: (all: number, value: number) => number): Call {
  return (args, [out]) => {
    const self = args.self as Tensor;
    if (!out) return;
    const dims = dimensions(self, args.dim);
    const [from, to] = [reducedPlaces(self, dims), reducedPlaces(out, dims)];
    for (let i = 0; i < from.first.length; i++) {
      let total = start;
      for (let j = 0; j < from.steps.length; j++) {
        total = fold(total, self.data[from.first[i] + from.steps[j]]);
        out.data[to.first[i] + to.steps[j]] = total;
      }
    }
  };
}

const variance: Call = (args, outputs) => {
  const less = Number(args.correction ?? (args.unbiased === false ? 0 : 1));
  reduction((values) => {
    const mean = sum(values) / values.length;
    const squares = values.reduce((all, value) => all + (value - mean) ** 2, 0);
    return squares / Math.max(0, values.length - less);
  })(args, outputs);
};

/** The first `k` numbers along a dimension in order, and where they were. */
function ordered(args: Arguments, outputs: readonly (Tensor | null)[], isDown: boolean): void {
  const self = args.self as Tensor;
  const [values, indices] = outputs;
  const dims = dimensions(self, args.dim ?? -1);
  const from = reducedPlaces(self, dims);
  const rank = (value: number) => (Number.isNaN(value) ? Number.POSITIVE_INFINITY : value);
  const sign = isDown ? -1 : 1;
  for (let i = 0; i < from.first.length; i++) {
    const row = Array.from(from.steps, (step) => self.data[from.first[i] + step]);
    const order = row.map((_, at) => at);
    order.sort((a, b) => sign * (rank(row[a]) - rank(row[b])) || a - b);
    for (const [out, read] of [
      [values, (at: number) => row[at]],
      [indices, (at: number) => at],
    ] as const) {
      if (!out) continue;
      const to = reducedPlaces(out, dims);
      for (let j = 0; j < to.steps.length; j++)
        out.data[to.first[i] + to.steps[j]] = read(order[j]);
    }
  }
}

/** Products of matrices; a batch one by one. */
function multiply(a: Tensor, b: Tensor, out: Tensor): void {
  const [rows, inner] = a.shape.slice(-2);
  const columns = b.shape[b.shape.length - 1];
  const [left, right] = [copyOf(a), copyOf(b)];
  const found = new Float64Array(product(out.shape));
  const count = product(out.shape.slice(0, -2));
  for (let n = 0; n < count; n++)
    for (let i = 0; i < rows; i++)
      for (let k = 0; k < inner; k++) {
        const one = left[(n * rows + i) * inner + k];
        const to = (n * rows + i) * columns;
        const from = (n * inner + k) * columns;
        for (let j = 0; j < columns; j++) found[to + j] += one * right[from + j];
      }
  write(out, found);
}

const matrices: Call = ({ self, mat2 }, [out]) => {
  if (out) multiply(self as Tensor, mat2 as Tensor, out);
};

export const REDUCTIONS: Readonly<Record<string, Call>> = {
  all: reduction((values) => (values.every((value) => value !== 0) ? 1 : 0)),
  amax: extreme(largest),
  amin: extreme(smallest),
  any: reduction((values) => (values.some((value) => value !== 0) ? 1 : 0)),
  argmax: reduction(largest),
  argmin: reduction(smallest),
  bmm: matrices,
  cumprod: cumulative(1, (all, value) => all * value),
  cumsum: cumulative(0, (all, value) => all + value),
  max: extreme(largest),
  mean: reduction((values) => sum(values) / values.length),
  min: extreme(smallest),
  mm: matrices,
  prod: reduction((values) => values.reduce((all, value) => all * value, 1)),
  sort: (args, outputs) => ordered(args, outputs, args.descending === true),
  sum: reduction(sum),
  var: variance,
  topk: (args, outputs) => ordered(args, outputs, args.largest !== false),
};
