import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { commonStage, type Stage } from "./stages";

const stages: fc.Arbitrary<Stage> = fc.constantFrom<Stage>(
  "waiting",
  "ready",
  "running",
  "done",
  "not reached",
);

describe("commonStage", () => {
  it("of nodes that are alike is theirs", () => {
    fc.assert(
      fc.property(stages, fc.integer({ min: 1, max: 9 }), (stage, count) => {
        expect(commonStage(new Array(count).fill(stage))).toBe(stage);
      }),
    );
  });

  it("does not depend on the order", () => {
    fc.assert(
      fc.property(fc.array(stages, { minLength: 1 }), (all) => {
        expect(commonStage([...all].reverse())).toBe(commonStage(all));
      }),
    );
  });

  it("is that of the node that runs, and done only once nothing is left to do", () => {
    fc.assert(
      fc.property(fc.array(stages, { minLength: 1 }), (all) => {
        const common = commonStage(all);
        expect(common === "running").toBe(all.includes("running"));
        const reached = all.filter((stage) => stage !== "not reached");
        const isDone = reached.length > 0 && reached.every((stage) => stage === "done");
        expect(common === "done").toBe(isDone);
        expect(common === "not reached").toBe(reached.length === 0);
      }),
    );
  });
});
