import type { Hanging } from "./types";

/** What hangs on some of the nodes; on one that is not there, nothing. */
export function pickHanging(
  { left, right, height }: Hanging<ArrayLike<number>>,
  nodes: ArrayLike<number>,
): Hanging {
  const pick = (of: ArrayLike<number>) => Float64Array.from(nodes, (v) => of[v] ?? 0);
  return { left: pick(left), right: pick(right), height: pick(height) };
}

/** How tall nodes are with what hangs on them, px. */
export function tallest(height: Float64Array, hanging: Hanging | undefined): Float64Array {
  return hanging ? height.map((own, v) => Math.max(own, hanging.height[v])) : height;
}
