import { describe, expect, it } from "vitest";
import { runningAt, stateAt } from "../steps/recording";
import { MEMBERS, PANES, passOf } from "../testing/panes";
import type { MergedStepModel } from "../wire";
import { barSteps, mergedRecording, paneRecordings, sentencesOf, transportOf } from "./stepping";
import { unite } from "./united";

const united = unite(PANES, MEMBERS);
/** x and its clone: they share every step except CloneBackward0. */
const STEPS: MergedStepModel[] = [
  { node: 0, passes: [0, 1] },
  { node: 1, passes: [0, 1] },
  { node: 5, passes: [1] },
  { node: 4, passes: [0, 1] },
];
const passes = [
  passOf(PANES[0].graph, [0, 1, 4]),
  passOf(PANES[1].graph, [0, 1, 4, 5]),
  passOf(PANES[2].graph, null),
];

describe("mergedRecording", () => {
  it("numbers a pass's steps as all of them together are", () => {
    const recording = mergedRecording(PANES[0].graph, passes[0], STEPS, 0);
    expect([...recording.step]).toEqual([1, 2, 0, 0, 4]);
    expect(recording.steps).toHaveLength(4);
    expect([0, 1, 2, 3, 4].map((cursor) => runningAt(recording, cursor))).toEqual([
      null,
      0,
      1,
      null, // only the clone runs here
      4,
    ]);
    expect(stateAt(recording, 4, 2)).toBe("ready");
    expect(stateAt(recording, 1, 3)).toBe("done");
  });

  it("is kept while Python sends the same", () => {
    const read = paneRecordings();
    const first = read(united.panes, passes, STEPS);
    expect(first[2]).toBeNull();
    expect(read(united.panes, [...passes], STEPS)[0]).toBe(first[0]);
    expect(read(united.panes, passes, [...STEPS])[0]).not.toBe(first[0]);
  });
});

describe("the bar", () => {
  it("names the graphs that run a step and the gradients that grow", () => {
    const steps = barSteps(united, STEPS, passes);
    expect(steps.map(({ name }) => name)).toEqual([
      null,
      null,
      "only in <b>clone</b>",
      "adds to x.grad",
    ]);
    expect(steps.map(({ op }) => op)).toEqual([
      "AddBackward0",
      "MulBackward0",
      "CloneBackward0",
      "AccumulateGrad",
    ]);
  });

  it("says once what is true of all, and else of which", () => {
    expect(sentencesOf(united.panes, ["same", "same", "same"])).toBe("same");
    expect(sentencesOf(united.panes, [null, "a", "a"])).toBe("<b>clone</b>, frozen: a");
    expect(transportOf(united.panes, passes).note).toContain("frozen: no backward");
    expect(transportOf(united.panes, passes).owned).toBe(true);
    const blocked = passes.map((pass) => ({
      ...pass,
      transport: { owned: false, note: null, blocked: "No." },
    }));
    expect(transportOf(united.panes, blocked)).toMatchObject({ blocked: "No.", owned: false });
  });
});
