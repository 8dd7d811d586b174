import { type Call, isTensor } from "./pointwise";
import {
  copyOf,
  counted,
  numbersOf,
  places,
  product,
  storing,
  type Tensor,
  write,
} from "./tensors";

/** Row-major steps of a shape. */
function steps(shape: readonly number[]): number[] {
  return shape.map((_, dim) => product(shape.slice(dim + 1)));
}

/** Every index of a shape in row-major order, as one array that is changed. */
function* indices(shape: readonly number[]): Generator<readonly number[]> {
  const count = product(shape);
  const at = shape.map(() => 0);
  for (let i = 0; i < count; i++) {
    yield at;
    for (let dim = shape.length - 1; dim >= 0 && ++at[dim] === shape[dim]; dim--) at[dim] = 0;
  }
}

function flat(at: readonly number[], by: readonly number[]): number {
  let found = 0;
  for (let dim = 0; dim < at.length; dim++) found += at[dim] * (by[dim] ?? 0);
  return found;
}

const copy =
  (name: string): Call =>
  (args, [out]) => {
    if (!out) return;
    const from = args[name];
    const to = places(out);
    const store = storing(out);
    if (!isTensor(from)) {
      for (const place of to) store(place, Number(from));
      return;
    }
    const at = places(from, out.shape);
    const values = Array.from(at, (place) => from.data[place]);
    for (let i = 0; i < to.length; i++) store(to[i], values[i]);
  };

const cat: Call = (args, [out]) => {
  if (!out) return;
  const tensors = (args.tensors as Tensor[]).filter(
    ({ shape }) => shape.length === out.shape.length,
  );
  const dim = counted(out, (args.dim as number) ?? 0);
  const found = new Float64Array(product(out.shape));
  const by = steps(out.shape);
  let before = 0;
  for (const tensor of tensors) {
    const values = copyOf(tensor);
    let i = 0;
    for (const at of indices(tensor.shape)) found[flat(at, by) + before * by[dim]] = values[i++];
    before += tensor.shape[dim];
  }
  write(out, found);
};

const flip: Call = (args, [out]) => {
  const self = args.self as Tensor;
  if (!out) return;
  const dims = (args.dims as number[]).map((dim) => counted(self, dim));
  const values = copyOf(self);
  const by = steps(self.shape);
  const found = new Float64Array(values.length);
  let i = 0;
  for (const at of indices(self.shape)) {
    const from = at.map((one, dim) => (dims.includes(dim) ? self.shape[dim] - 1 - one : one));
    found[i++] = values[flat(from, by)];
  }
  write(out, found);
};

/** For each number of `index`, the place in a row-major tensor with that index along `dim`. */
function placesAlong(shape: readonly number[], dim: number, index: Tensor): number[] {
  const by = steps(shape);
  const chosen = numbersOf(index);
  const found: number[] = [];
  let i = 0;
  for (const at of indices(index.shape))
    found.push(flat(at, by) + (chosen[i++] - (at[dim] ?? 0)) * (by[dim] ?? 1));
  return found;
}

const gather: Call = (args, [out]) => {
  const self = args.self as Tensor;
  if (!out) return;
  const values = copyOf(self);
  const at = placesAlong(self.shape, counted(self, args.dim as number), args.index as Tensor);
  write(
    out,
    at.map((place) => values[place]),
  );
};

/** Write or add numbers at the places of an index along a dimension. */
function scattering(isSum: boolean): Call {
  return (args, [out]) => {
    const self = args.self as Tensor;
    if (!out) return;
    const index = args.index as Tensor;
    const found = copyOf(self);
    const { src, value } = args;
    const at = placesAlong(self.shape, counted(self, args.dim as number), index);
    const by = isTensor(src) ? steps(src.shape) : [];
    const given = isTensor(src) ? copyOf(src) : null;
    const adds = isSum || args.reduce === "add";
    const multiplies = args.reduce === "multiply";
    let i = 0;
    for (const here of indices(index.shape)) {
      const number = given ? given[flat(here, by)] : Number(value);
      const place = at[i++];
      const scaled = multiplies ? found[place] * number : number;
      found[place] = adds ? found[place] + number : scaled;
    }
    write(out, found);
  };
}

/** The rows of an index along one dimension. */
function rowsOf(self: Tensor, dim: number, index: Tensor): number[] {
  const by = steps(self.shape);
  const chosen = numbersOf(index);
  const shape = self.shape.map((size, at) => (at === dim ? chosen.length : size));
  const found: number[] = [];
  for (const at of indices(shape)) {
    const row = chosen[at[dim] ?? 0];
    found.push(flat(at, by) + (row - (at[dim] ?? 0)) * (by[dim] ?? 1));
  }
  return found;
}

const indexSelect: Call = (args, [out]) => {
  const self = args.self as Tensor;
  if (!out) return;
  const values = copyOf(self);
  const at = rowsOf(self, counted(self, args.dim as number), args.index as Tensor);
  write(
    out,
    at.map((place) => values[place]),
  );
};

const indexAdd: Call = (args, [out]) => {
  const self = args.self as Tensor;
  if (!out) return;
  const found = copyOf(self);
  const source = copyOf(args.source as Tensor);
  const at = rowsOf(self, counted(self, args.dim as number), args.index as Tensor);
  at.forEach((place, i) => {
    found[place] += Number(args.alpha ?? 1) * source[i];
  });
  write(out, found);
};

function broadcast(shapes: readonly (readonly number[])[]): number[] {
  const length = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length }, (_, dim) =>
    shapes.reduce((size, shape) => {
      const own = shape[dim - length + shape.length] ?? 1;
      return own === 1 ? size : own;
    }, 1),
  );
}

/** The places that torch's index by several tensors reads, and their shape. */
function indexed(
  self: Tensor,
  given: readonly (Tensor | null)[],
): { at: number[]; shape: number[] } {
  const by = steps(self.shape);
  const used = given.flatMap((one, dim) => (one ? [dim] : []));
  const tensors = used.map((dim) => given[dim] as Tensor);
  const chosen = broadcast(tensors.map(({ shape }) => shape));
  const rows = tensors.map((one, i) => {
    const size = self.shape[used[i]];
    return Array.from(places(one, chosen), (place) => (one.data[place] + size) % size);
  });
  const isTogether = used.every((dim, i) => i === 0 || dim === used[i - 1] + 1);
  const start = isTogether ? used[0] : 0;
  const rest = self.shape.map((_, dim) => dim).filter((dim) => !used.includes(dim));
  const [before, after] = [rest.slice(0, start), rest.slice(start)];
  const sizes = (dims: readonly number[]) => dims.map((dim) => self.shape[dim]);
  const shape = [...sizes(before), ...chosen, ...sizes(after)];
  const byOf = (dims: readonly number[]) => dims.map((dim) => by[dim]);
  const at: number[] = [];
  for (const left of indices(sizes(before))) {
    const first = flat(left, byOf(before));
    for (let i = 0; i < product(chosen); i++) {
      const middle = used.reduce((sum, dim, which) => sum + rows[which][i] * by[dim], first);
      for (const right of indices(sizes(after))) at.push(middle + flat(right, byOf(after)));
    }
  }
  return { at, shape };
}

const index: Call = (args, [out]) => {
  const self = args.self as Tensor;
  if (!out) return;
  const values = copyOf(self);
  const { at } = indexed(self, args.indices as (Tensor | null)[]);
  write(
    out,
    at.map((place) => values[place]),
  );
};

const indexPut: Call = (args, [out]) => {
  const self = args.self as Tensor;
  const given = args.values as Tensor;
  if (!out) return;
  const found = copyOf(self);
  const { at, shape } = indexed(self, args.indices as (Tensor | null)[]);
  const from = places(given, shape);
  at.forEach((place, i) => {
    const number = given.data[from[i]];
    found[place] = args.accumulate === true ? found[place] + number : number;
  });
  write(out, found);
};

export const INDEXING: Readonly<Record<string, Call>> = {
  _to_copy: copy("self"),
  cat,
  clone: copy("self"),
  copy: copy("src"),
  fill: copy("value"),
  flip,
  gather,
  index,
  index_add: indexAdd,
  index_put: indexPut,
  index_select: indexSelect,
  scatter: scattering(false),
  scatter_add: scattering(true),
  zero: (_, outputs) => copy("value")({ value: 0 }, outputs),
};
