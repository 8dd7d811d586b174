import type { LayoutInput, LayoutOptions } from "./types";

/** Throw an error with one sentence for the first problem of the input. */
export function check(input: LayoutInput, options: LayoutOptions): void {
  const { n, source, target, width, height, shared } = input;
  if (!Number.isInteger(n) || n < 0) {
    throw new Error(`The number of nodes must be a whole number of at least 0, but it is ${n}.`);
  }
  if (source.length !== target.length) {
    throw new Error(
      `There are ${source.length} edge sources but ${target.length} edge targets; each edge needs one of both.`,
    );
  }
  checkLength("width", width, n);
  checkLength("height", height, n);
  if (shared) checkLength("shared", shared, n);
  checkSizes("width", width);
  checkSizes("height", height);
  checkEnds("source", source, n);
  checkEnds("target", target, n);
  for (const name of ["nodeGap", "rankGap", "edgeGap", "crossGap"] as const) {
    const value = options[name];
    if (value !== undefined && !(value >= 0 && value < Infinity)) {
      throw new Error(
        `The option ${name} must be a finite number of at least 0, but it is ${value}.`,
      );
    }
  }
  const { aspect } = options;
  if (aspect !== undefined && !(aspect > 0 && aspect < Infinity)) {
    throw new Error(
      `The option aspect must be a finite number above 0, width over height, but it is ${aspect}.`,
    );
  }
}

function checkLength(name: string, values: ArrayLike<number>, n: number): void {
  if (values.length !== n) {
    throw new Error(`There are ${n} nodes but ${values.length} entries in ${name}.`);
  }
}

function checkSizes(name: string, values: ArrayLike<number>): void {
  for (let v = 0; v < values.length; v++) {
    if (!(values[v] >= 0 && values[v] < Infinity)) {
      throw new Error(
        `The ${name} of node ${v} must be a finite number of at least 0, but it is ${values[v]}.`,
      );
    }
  }
}

function checkEnds(name: string, ends: ArrayLike<number>, n: number): void {
  for (let e = 0; e < ends.length; e++) {
    if (!(Number.isInteger(ends[e]) && ends[e] >= 0 && ends[e] < n)) {
      throw new Error(
        `The ${name} of edge ${e} is ${ends[e]}, which is not one of the ${n} nodes.`,
      );
    }
  }
}
