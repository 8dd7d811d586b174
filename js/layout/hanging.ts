import type { Hanging } from "./types";

/** Select the docked parts of some nodes. */
export function pickHanging(
  { left, right, height }: Hanging<ArrayLike<number>>,
  nodes: ArrayLike<number>,
): Hanging {
  const pick = (of: ArrayLike<number>) => Float64Array.from(nodes, (v) => of[v] ?? 0);
  return { left: pick(left), right: pick(right), height: pick(height) };
}

/** The heights of nodes with their docked parts, px. */
export function tallest(height: Float64Array, hanging: Hanging | undefined): Float64Array {
  return hanging ? height.map((own, v) => Math.max(own, hanging.height[v])) : height;
}
