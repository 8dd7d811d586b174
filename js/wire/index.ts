/**
 * The wire format between Python and the browser. NaN and infinities are not JSON: they travel as the strings "nan",
 * "inf" and "-inf".
 */

export * from "./columns";
export * from "./generated";
