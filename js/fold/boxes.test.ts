import { expect, it } from "vitest";
import { boxesAround } from "./strips";
import type { GroupTree } from "./tree";

it("a single node has a box where that tells when it runs, and no other", () => {
  const path = ["", "net", "torch.cond: if true", "torch.cond 2: if false", "torch.func.grad"];
  const tree = { path, size: [9, 1, 1, 1, 1], parent: [-1, 0, 0, 0, 0] } as unknown as GroupTree;
  const { group, box } = boxesAround([1, 2, 3, 4], tree);
  expect([...group]).toEqual([2, 3]);
  expect([...box]).toEqual([-1, 0, 1, -1]);
});
