import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fakeRun, SITUATIONS } from "../demo/fake_run";
import { graphs, MODELS } from "../testing/graphs";
import type { NodeState } from "../wire";
import { checkRun, checkSteps } from "./check";
import { flowedAt, recordingOf, runningAt, stateAt } from "./recording";
import { describeState, positionText } from "./words";

const runs = fc.tuple(graphs, fc.constantFrom(...SITUATIONS)).map(([graph, situation]) => {
  const { steps, run } = fakeRun(graph, situation);
  return { graph, steps, run, recording: recordingOf(graph, steps, run) };
});

const ORDER: NodeState[] = ["waiting", "ready", "running", "done"];

describe("a recording", () => {
  it("takes every node from waiting to done, one running at a time", () => {
    fc.assert(
      fc.property(runs, ({ graph, steps, recording }) => {
        for (let cursor = 0; cursor <= steps.length; cursor++) {
          const states = graph.nodes.map(({ id }) => stateAt(recording, id, cursor));
          expect(states.filter((state) => state === "running")).toHaveLength(cursor > 0 ? 1 : 0);
          expect(states.filter((state) => state === "done")).toHaveLength(Math.max(0, cursor - 1));
          if (cursor > 0) expect(states[runningAt(recording, cursor) ?? -1]).toBe("running");
          graph.nodes.forEach(({ id }) => {
            const step = steps.find((one) => one.node === id);
            expect(states[id] === "not reached").toBe(step === undefined);
            if (step && cursor > 0) {
              const before = ORDER.indexOf(stateAt(recording, id, cursor - 1));
              expect(ORDER.indexOf(states[id])).toBeGreaterThanOrEqual(before);
            }
          });
        }
      }),
    );
  });

  it("is ready exactly when every edge into a node that runs has carried its gradient", () => {
    fc.assert(
      fc.property(runs, ({ graph, steps, recording }) => {
        for (const { node } of steps) {
          const into = [...graph.edges.keys()].filter((edge) => graph.edges[edge].target === node);
          for (let cursor = 0; cursor <= steps.length; cursor++) {
            const arrived = into.every((edge) => flowedAt(recording, edge, cursor));
            expect(stateAt(recording, node, cursor) !== "waiting").toBe(arrived);
          }
        }
      }),
    );
  });

  it("holds the true numbers of the two ways to one leaf", () => {
    const graph = MODELS["(x + 1 - 2 * x) ** 2"]();
    const { steps, run } = fakeRun(graph, "fine");
    const x = graph.nodes.findIndex((node) => node.name === "x");
    const into = run.edges.flatMap((edge, i) =>
      graph.edges[edge].target === x ? [run.values[i]] : [],
    );
    expect(into.sort()).toEqual([-4, 8]);
    expect(run.grads).toEqual([{ node: x, values: 4, norm: 4 }]);
    const recording = recordingOf(graph, steps, run);
    expect(positionText(recording, 5)).toBe("step 5 of 5: AccumulateGrad, x.grad grows");
    expect(positionText(recording, 0)).toBe("before step 1 of 5: press > to run PowBackward0");
    expect(describeState({ recording, cursor: 1 }, x)).toBe(
      "waiting for gradients: it runs in step 5 of 5",
    );
  });
});

describe("the guards of steps", () => {
  const graph = MODELS["h = w * x + b"]();
  const { steps, run } = fakeRun(graph, "nan");

  it("let runs through unchanged", () => {
    fc.assert(
      fc.property(runs, ({ graph, steps, run }) => {
        expect(checkSteps(steps, graph)).toBe(steps);
        expect(checkRun(run, graph)).toBe(run);
      }),
    );
    expect(checkRun(null, graph)).toBeNull();
  });

  it("take any JSON without another error than a sentence", () => {
    const attempt = (check: () => unknown) => {
      try {
        check();
      } catch (error) {
        expect((error as Error).message).toMatch(/^[A-Z].*\.$/);
        expect((error as Error).constructor).toBe(Error);
      }
    };
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(...Object.keys(run)), (value, key) => {
        attempt(() => checkSteps(value, graph));
        attempt(() => checkSteps([value], graph));
        attempt(() => checkRun(value, graph));
        attempt(() => checkRun({ ...run, [key]: value }, graph));
        attempt(() => checkRun({ ...run, [key]: [value] }, graph));
      }),
    );
  });

  it.each([
    ["a number out of place", [{ ...steps[0], step: 2 }], "does not carry its number"],
    ["a node twice", [steps[0], { ...steps[1], node: steps[0].node }], "for the first time"],
    ["a node that is none", [{ ...steps[0], node: 99 }], "one of the graph's 5 nodes"],
    ["ready after running", [{ ...steps[0], ready: 1 }], "before its gradients are there"],
  ])("name %s", (_, value, message) => {
    expect(() => checkSteps(value, graph)).toThrow(message);
  });

  it("name gradients that belong to no edge", () => {
    expect(() => checkRun({ ...run, norms: [] }, graph)).toThrow("one gradient for each edge");
    expect(() => checkRun({ ...run, edges: run.edges.map(() => 7) }, graph)).toThrow(
      "flows along edge 7, but the graph has 4 edges.",
    );
  });
});
