import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { commonPhase, type Phase } from "./phases";

const phases: fc.Arbitrary<Phase> = fc.constantFrom<Phase>(
  "waiting",
  "ready",
  "running",
  "done",
  "not reached",
);

describe("commonPhase", () => {
  it("of nodes that are alike is theirs", () => {
    fc.assert(
      fc.property(phases, fc.integer({ min: 1, max: 9 }), (phase, count) => {
        expect(commonPhase(new Array(count).fill(phase))).toBe(phase);
      }),
    );
  });

  it("does not depend on the order", () => {
    fc.assert(
      fc.property(fc.array(phases, { minLength: 1 }), (all) => {
        expect(commonPhase([...all].reverse())).toBe(commonPhase(all));
      }),
    );
  });

  it("is the running node's, and done only after all nodes", () => {
    fc.assert(
      fc.property(fc.array(phases, { minLength: 1 }), (all) => {
        const common = commonPhase(all);
        expect(common === "running").toBe(all.includes("running"));
        const reached = all.filter((phase) => phase !== "not reached");
        const isDone = reached.length > 0 && reached.every((phase) => phase === "done");
        expect(common === "done").toBe(isDone);
        expect(common === "not reached").toBe(reached.length === 0);
      }),
    );
  });
});
