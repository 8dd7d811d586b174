import { CONVOLUTIONS } from "./convolutions";
import { INDEXING } from "./indexing";
import { type Call, POINTWISE } from "./pointwise";
import { REDUCTIONS } from "./reductions";

/** The calls that a page computes, by torch's name; `gradwalk.features.live.calls` lists them. */
export const CALLS: Readonly<Record<string, Call>> = {
  ...POINTWISE,
  ...REDUCTIONS,
  ...INDEXING,
  ...CONVOLUTIONS,
};
