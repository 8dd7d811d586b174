/**
 * What the bundle asks of the language again and again, under names of its own, which a minifier can shorten: esbuild
 * puts `max` for every `Math.max`.
 */
const { abs, ceil, floor, hypot, imul, log, max, min, round, sqrt } = Math;

export {
  abs as "Math.abs",
  ceil as "Math.ceil",
  floor as "Math.floor",
  hypot as "Math.hypot",
  imul as "Math.imul",
  log as "Math.log",
  max as "Math.max",
  min as "Math.min",
  round as "Math.round",
  sqrt as "Math.sqrt",
};

const { isArray } = Array;
const from = Array.from.bind(Array);

export { from as "Array.from", isArray as "Array.isArray" };

const { entries, fromEntries } = Object;

export { entries as "Object.entries", fromEntries as "Object.fromEntries" };

const { isFinite: isFiniteNumber, isInteger, isNaN: isNotNumber } = Number;

export {
  isFiniteNumber as "Number.isFinite",
  isInteger as "Number.isInteger",
  isNotNumber as "Number.isNaN",
};

const Doubles = Float64Array;
const Integers = Int32Array;
const Bytes = Uint8Array;
const Fault = Error;
const Names = Map;
const Several = Set;
const text = String;

export {
  Bytes as Uint8Array,
  Doubles as Float64Array,
  Fault as Error,
  Integers as Int32Array,
  Names as Map,
  Several as Set,
  text as String,
};

// Whoever puts another clock into a page is heard.
const clear = (timer) => window.clearTimeout(timer);
const later = (task, ms) => window.setTimeout(task, ms);
const nextFrame = (task) => requestAnimationFrame(task);
const noFrame = (request) => cancelAnimationFrame(request);
const now = () => performance.now();

export {
  clear as "window.clearTimeout",
  later as "window.setTimeout",
  nextFrame as requestAnimationFrame,
  noFrame as cancelAnimationFrame,
  now as "performance.now",
};

/** Not there in a worker, which asks by `typeof`. */
const page = globalThis.document;

export { page as document };
