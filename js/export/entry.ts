import type { GraphModel } from "../wire";
import { type SvgOptions, svg as write } from "./svg";

/** What Python calls in its embedded engine: a picture, or the sentence that says why there is none. */
export function svg(model: GraphModel, options: SvgOptions): { svg: string } | { fault: string } {
  try {
    return { svg: write(model, options) };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}
