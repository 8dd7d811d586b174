/**
 * The wire format between Python and the browser, version 1.
 *
 * The same fields stand as TypedDicts in `src/gradwalk/wire/`; `tests/test_wire.py` fails when
 * the two sides drift apart. NaN and infinities are not JSON: they travel as the strings
 * "nan", "inf" and "-inf".
 */

export * from "./wire/backward";
export * from "./wire/comparison";
export * from "./wire/details";
export * from "./wire/diagnosis";
export * from "./wire/graph";
export * from "./wire/packed";
export * from "./wire/values";
