import "./features/still";
import { type SvgOptions, svg as write } from "./export/svg";
import type { GraphModel } from "./wire";

/** Called by Python in its embedded engine. Returns a picture, or why there is none. */
export function svg(model: GraphModel, options: SvgOptions): { svg: string } | { fault: string } {
  try {
    return { svg: write(model, options) };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}
