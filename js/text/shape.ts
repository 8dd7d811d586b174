/** A shape as Python writes it: `(64, 3, 7, 7)`, `(3,)`, and `scalar` for a 0-dim tensor. */
export function formatShape(shape: readonly number[]): string {
  if (shape.length === 0) return "scalar";
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}
