/** Operations whose backward only moves, reshapes, casts or sums the gradient; the same list stands in `plumbing.py`. */
export const PLUMBING: ReadonlySet<string> = new Set(
  [
    "Alias0 AsStrided0 Diagonal0 Permute0 ReshapeAlias0 Select0 Slice0 Split0 SplitWithSizes0",
    "Squeeze0 Squeeze1 Squeeze2 Squeeze3 Squeeze4 Squeeze5 T0 Transpose0 Transpose1 Unbind0 Unfold0",
    "UnsafeSplit0 UnsafeSplitWithSizes0 UnsafeView0 Unsqueeze0 Unsqueeze1 View0 ViewAsComplex0 ViewAsReal0",
    "Expand0 Repeat0 Clone0 Lift0 ToCopy0",
  ]
    .join(" ")
    .split(" ")
    .map((name) => `${name.slice(0, -1)}Backward${name.slice(-1)}`)
    .concat("CopyBackwards"),
);

/** Calls of a static graph that autograd knows under other names, or not at all. */
const CALLS = /^(getitem|(aten\.)?(to|flatten|reshape|contiguous|expand_as|unflatten)\b)/;

/** Whether an operation only hands a tensor on; "aten.view.default" of a static graph as well as "ViewBackward0". */
export function isPlumbing(op: string): boolean {
  const [, called] = /^(?:aten\.)?([a-z_]\w*)/.exec(op) ?? [];
  const name = called?.replace(/_+(\w)|^./g, (part) => part.slice(-1).toUpperCase());
  return PLUMBING.has(name ? `${name}Backward0` : op.replace(/_copy$/, "")) || CALLS.test(op);
}
