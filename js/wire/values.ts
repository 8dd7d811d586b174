export const WIRE_VERSION = 1;

/** A number as JSON can carry it: integers beyond 2^53, NaN and infinities come as strings. */
export type JsonNumber = number | string;

/** Values of a tensor: nested lists, one level per dimension, a bare value for a 0-dim tensor. */
export type Values = JsonNumber | boolean | Values[];

/** One integer per row; a run of the same is one entry, [number, how often]. */
export type Column = (number | number[])[];

/** Integers; those that follow each other are one entry, [first, last]. */
export type Ranges = (number | number[])[];
