/** The wire format. NaN and infinities are not JSON: they travel as the strings "nan", "inf" and "-inf". */

export * from "./columns";
export * from "./generated";
