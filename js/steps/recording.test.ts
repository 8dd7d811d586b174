import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fakeRun, SITUATIONS } from "../testing/fake_run";
import { graphs, MODELS } from "../testing/graphs";
import type { NodeState } from "../wire";
import { flowedAt, recordingOf, runningAt, stateAt } from "./recording";
import { describeState, position, positionText } from "./words";

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

  it("has no step for a cut, which is not in the pass", () => {
    const graph = MODELS["h = w * x + b"]();
    const { steps, run } = fakeRun(graph, "fine");
    const recording = recordingOf(graph, steps, run);
    expect(stateAt(recording, graph.nodes.length, steps.length)).toBe("not reached");
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
    expect(run.grads).toEqual([
      { node: x, values: 4, norm: 4, before: null, changed: false, now: null },
    ]);
    const recording = recordingOf(graph, steps, run);
    const at = (cursor: number) => positionText({ recording, cursor }, graph);
    expect(at(3)).toBe("step 3 of 5: MulBackward0 y2, passes 8 to x");
    expect(at(5)).toBe("backward done · 5 steps, x.grad None → 4");
    expect(at(0)).toBe("before step 1 of 5: press › to run PowBackward0");
    const ended = (norm: number | null) => {
      const gradients = new Map([...recording.gradients, [x, { values: null, norm }]]);
      const progress = { recording: { ...recording, gradients }, cursor: 5 };
      return [positionText(progress, graph), position(progress, graph).isZero];
    };
    expect(ended(0)).toEqual([
      "backward done · 5 steps, 1 of 1 gradient is 0, x.grad None → 4",
      true,
    ]);
    expect(ended(2)).toEqual([at(5), false]);
    expect(ended(null)).toEqual([at(5), false]);
    // A leaf's step has its name once.
    const one = recordingOf(graph, [...steps, steps[0]], run);
    expect(positionText({ recording: one, cursor: 5 }, graph)).toBe(
      "step 5 of 6: x.grad, None → 4",
    );
    expect(describeState({ recording, cursor: 1 }, x)).toBe(
      "waiting for gradients: it runs in step 5 of 5",
    );
  });
});
