import { describe, expect, it } from "vitest";
import { MODELS } from "../testing/graphs";
import { search } from "./search";

const lenet = MODELS.LeNet();
const labels = (query: string) => search(lenet, query).map((id) => lenet.nodes[id].label);

describe("search", () => {
  it("finds operations and names in any case", () => {
    expect(labels("RELU")).toHaveLength(5);
    expect(labels("fc2.weight")).toEqual(["fc2.weight"]);
    expect(labels("LOSS")[0]).toBe("loss");
  });

  it.each(["6, 1, 5, 5", "(6, 1, 5, 5)", "6,1,5,5", "6x1x5x5", "6 × 1 × 5 × 5", "( 6,1"])(
    "finds a shape written %s",
    (query) => expect(labels(query)).toEqual(["features.0.conv.weight"]),
  );

  it("finds whole sizes only", () => {
    expect(search(lenet, "(8").length).toBe(0);
    expect(labels("(10,)")).toEqual(["fc3.bias"]);
    expect(labels("scalar")).toEqual(["loss"]);
  });

  it("wants every word", () => {
    expect(labels("relu 64,84")).toEqual(["ReluBackward0"]);
    expect(labels("relu nothing")).toEqual([]);
  });

  it("finds nothing for nothing", () => {
    expect(search(lenet, "  ")).toEqual([]);
    expect(search(lenet, "(")).toEqual([]);
  });
});
