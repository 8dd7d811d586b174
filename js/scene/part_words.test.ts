import { expect, it } from "vitest";
import type { NodeModel } from "../wire";
import { partWords } from "./part_words";

const node = (op: string, sign: string | null = null) => ({ op, sign }) as NodeModel;
/** Nodes are numbered from the outputs. */
const words = (...forward: NodeModel[]) =>
  partWords(forward.reverse(), (text) => text.length <= 24);

it("names the main operations of a part and counts them", () => {
  const [gelu, product] = [node("GeluBackward0", "gelu"), node("AddmmBackward0", "@ +")];
  expect(words(product, gelu, product)).toBe("2 matmul · gelu");
  // Weights of experts, not attention.
  const softmax = node("SoftmaxBackward0", "softmax");
  expect(words(softmax, node("BmmBackward0", "@"), node("BmmBackward0", "@"))).toBe(
    "2 matmul · softmax",
  );
  expect(words(node("ConvolutionBackward0", "conv2d 3×3"))).toBe("conv2d");
  expect(words(node("GroupedMmBackward0", "grouped mm, 4 groups"))).toBe("grouped mm");
});

it("leaves out mere signs, and operations that only pass a tensor on", () => {
  const [times, tanh] = [node("MulBackward0", "× 2"), node("TanhBackward0", "tanh")];
  expect(words(times, tanh, node("ViewBackward0", "view"))).toBe("tanh");
  expect(words(times, times)).toBeNull();
  expect(words(node("ViewBackward0", "view"))).toBeNull();
});

it("stops where the room ends", () => {
  const layers = ["layer norm", "softmax", "dropout"].map((sign) => node("XBackward0", sign));
  expect(words(...layers)).toBe("layer norm · softmax");
});
