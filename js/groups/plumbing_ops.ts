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

/** Whether an operation only hands a tensor on. */
export function isPlumbing(op: string): boolean {
  return PLUMBING.has(op.replace(/_copy$/, ""));
}
