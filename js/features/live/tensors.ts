/** The types that a page computes with. Integers are held as doubles. */
export type Dtype = "float32" | "float64" | "int64" | "int32" | "uint8" | "bool";

export type Numbers = Float32Array | Float64Array;

/** A view of memory, as in torch. */
export interface Tensor {
  readonly data: Numbers;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
}

/** Memory for numbers of a type; float32 rounds what it stores. */
export function memory(dtype: Dtype, size: number): Numbers {
  return dtype === "float32" ? new Float32Array(size) : new Float64Array(size);
}

export function product(sizes: readonly number[]): number {
  return sizes.reduce((all, size) => all * size, 1);
}

/** A value per tensor and key: views never move, so places are computed once. */
const known = new WeakMap<Tensor, Map<string, Int32Array>>();

function remembered(tensor: Tensor, key: string, make: () => Int32Array): Int32Array {
  let places = known.get(tensor);
  if (!places) {
    places = new Map();
    known.set(tensor, places);
  }
  let found = places.get(key);
  if (!found) {
    found = make();
    places.set(key, found);
  }
  return found;
}

/** The offsets of all indices of a shape, in row-major order. */
export function offsets(shape: readonly number[], strides: readonly number[]): Int32Array {
  let found = Int32Array.of(0);
  shape.forEach((size, dim) => {
    const next = new Int32Array(found.length * size);
    for (let i = 0; i < found.length; i++)
      for (let j = 0; j < size; j++) next[i * size + j] = found[i] + j * strides[dim];
    found = next;
  });
  return found;
}

/** Where in its memory a tensor's numbers are, in row-major order; `shape`: expanded to it. */
export function places(tensor: Tensor, shape: readonly number[] = tensor.shape): Int32Array {
  return remembered(tensor, String(shape), () => {
    const lead = shape.length - tensor.shape.length;
    const strides = shape.map((_, dim) =>
      dim < lead || tensor.shape[dim - lead] === 1 ? 0 : tensor.strides[dim - lead],
    );
    return offsets(shape, strides).map((each) => each + tensor.offset);
  });
}

/** Where a reduction over some dimensions reads: for each result, its first place; and the steps from there. */
export function reducedPlaces(
  tensor: Tensor,
  dims: readonly number[],
): { first: Int32Array; steps: Int32Array } {
  const kept = tensor.shape.map((_, dim) => dim).filter((dim) => !dims.includes(dim));
  const pick = (which: readonly number[]) =>
    offsets(
      which.map((dim) => tensor.shape[dim]),
      which.map((dim) => tensor.strides[dim]),
    );
  return {
    first: remembered(tensor, `first ${dims}`, () =>
      pick(kept).map((each) => each + tensor.offset),
    ),
    steps: remembered(tensor, `steps ${dims}`, () => pick(dims)),
  };
}

/** The dimensions that a reduction names, counted from the first; all where it names none. */
export function dimensions(tensor: Tensor, dim: unknown): number[] {
  const all = tensor.shape.map((_, at) => at);
  if (dim === null || dim === undefined || all.length === 0) return all;
  const given = (Array.isArray(dim) ? dim : [dim]) as number[];
  return given.length === 0 ? all : given.map((at) => counted(tensor, at));
}

/** A dimension counted from the first. */
export function counted({ shape }: Tensor, dim: number): number {
  return dim < 0 ? dim + Math.max(1, shape.length) : dim;
}

/** A function that stores a number as the tensor's type. */
export function storing({ data, dtype }: Tensor): (place: number, value: number) => void {
  if (dtype === "float32" || dtype === "float64")
    return (place, value) => {
      data[place] = value;
    };
  if (dtype === "bool")
    return (place, value) => {
      data[place] = value !== 0 ? 1 : 0;
    };
  const wrap = dtype === "uint8" ? 256 : 0;
  return (place, value) => {
    const whole = Math.trunc(value);
    data[place] = wrap ? ((whole % wrap) + wrap) % wrap : whole + 0;
  };
}

/** All numbers in row-major order. */
export function numbersOf(tensor: Tensor): number[] {
  return Array.from(places(tensor), (place) => tensor.data[place]);
}

/** Write numbers in row-major order. */
export function write(tensor: Tensor, numbers: ArrayLike<number>): void {
  const at = places(tensor);
  const store = storing(tensor);
  for (let i = 0; i < at.length; i++) store(at[i], numbers[i]);
}

/** A row-major copy. */
export function copyOf(tensor: Tensor): Float64Array {
  const at = places(tensor);
  const copy = new Float64Array(at.length);
  for (let i = 0; i < at.length; i++) copy[i] = tensor.data[at[i]];
  return copy;
}
