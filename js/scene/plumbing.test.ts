import { describe, expect, it } from "vitest";
import { isPlumbing } from "./plumbing";

describe("plumbing", () => {
  it("is what hands a tensor on, in either of its forms", () => {
    expect(isPlumbing("TransposeBackward0")).toBe(true);
    expect(isPlumbing("ViewBackward0_copy")).toBe(true);
    expect(isPlumbing("MulBackward0")).toBe(false);
  });

  it("is the same in a static graph, of torch.export or of torch.fx", () => {
    for (const op of [
      "aten.view.default",
      "aten._unsafe_view.default",
      "aten.t.default",
      "aten._to_copy.default",
    ])
      expect(isPlumbing(op), op).toBe(true);
    for (const op of ["permute", "getitem", "aten.flatten.using_ints", "aten.to.dtype", "flatten"])
      expect(isPlumbing(op), op).toBe(true);
    for (const op of ["aten.add.Tensor", "mul", "aten.topk.default", "tout", "Linear", "cond"])
      expect(isPlumbing(op), op).toBe(false);
  });
});
