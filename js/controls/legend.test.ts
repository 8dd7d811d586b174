// @vitest-environment jsdom
import { expect, it } from "vitest";
import type { GradientLabel } from "../paint/gradient_label";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import type { NodeModel } from "../wire";
import { legendEntries } from "./legend";

const BARE = {
  ...{
    stubs: false,
    copies: false,
    ran: false,
    unreached: false,
    waits: true,
    freed: false,
    recording: null,
  },
  kinds: new Set<NodeModel["kind"]>(["op", "leaf"]),
};
const label = (change: Partial<GradientLabel>): GradientLabel => ({
  ...{ x: 0, y: 0, width: 40, height: 20, key: "", text: "1", alarming: false, edge: null },
  ...{ nodes: [0], from: 0, cell: "full", ...change },
});

function entriesOf(change: Partial<Parameters<typeof legendEntries>[0]>): string[] {
  return legendEntries({ ...BARE, ...change }).map((entry) => entry.textContent ?? "");
}

it("has different arrows for a gradient to come and for a value, before backward", () => {
  const entries = entriesOf({ kinds: new Set(["op", "leaf", "constant"]) });
  expect(entries).toContain("gradient will go here");
  expect(entries).toContain("value without gradient");
  expect(entries).not.toContain("gradient");
});

it("says that a pass before the widget was made is not recorded", () => {
  const [path, coming] = ["path of the gradient, not recorded", "gradient will go here"];
  const entries = entriesOf({ waits: false, freed: true });
  expect(entries).toContain(path);
  expect(entries).not.toContain(coming);
  expect(entriesOf({ freed: true })).toEqual(expect.arrayContaining([path, coming])); // of two graphs
});

it("names zeros only if there are some, and the arrows of a whole pass at every step", () => {
  const graph = MODELS["h = w * x + b"]();
  const { steps, run } = fakeRun(graph, "fine");
  const recording = recordingOf(graph, steps, run);
  const entries = entriesOf({ ran: true, recording });
  expect(entries.slice(3, 5)).toEqual(["gradient", "gradient will go here"]);
  expect(entries).not.toContain("gradient is exactly 0");
  const zero = new Set([0]);
  expect(entriesOf({ ran: true, recording: { ...recording, zero } })).toContain(
    "gradient is exactly 0",
  );
});

it("explains the cells that are drawn, and no others", () => {
  const cells = ["\u2016", "stored in", "passed", "rows", "of zeros"];
  const met = (labels: GradientLabel[]) =>
    cells.filter((words) => entriesOf({ labels }).some((entry) => entry.includes(words)));
  expect(met([])).toEqual([]);
  expect(met([label({ stored: true })])).toEqual(["stored in"]);
  expect(met([label({ stored: true, none: true })])).toEqual([]);
  for (const stored of [true, false])
    expect(met([label({ stored, zero: true })])).toEqual(["of zeros"]);
  expect(met([label({ text: "\u20162\u2016" })])).toEqual(["\u2016", "passed"]);
  expect(met([label({ cell: "row" }), label({ cell: "full", stored: true })])).toEqual([
    "stored in",
    "rows",
  ]);
});

it("explains the blocks of strips that are drawn, and no others", () => {
  const none = { bars: false, unknown: false, again: false };
  const met = (strips: typeof none) =>
    entriesOf({ strips }).filter((entry) => entry.includes("block"));
  expect(met(none)).toEqual([]);
  expect(met({ ...none, bars: true })).toEqual([expect.stringContaining("a bar for each")]);
  expect(met({ ...none, unknown: true })).toEqual([expect.stringContaining("not known")]);
  expect(met({ ...none, again: true })).toEqual([expect.stringContaining("runs forward again")]);
});

it("names nodes of the drawn kinds only", () => {
  const nodes = ["operation", "leaf that requires grad", "output"];
  const met = (...kinds: NodeModel["kind"][]) =>
    entriesOf({ kinds: new Set(kinds) }).filter((entry) => nodes.includes(entry));
  expect(met("op", "leaf")).toEqual(nodes);
  expect(met("op")).toEqual(["operation", "output"]);
  expect(met()).toEqual(["output"]);
});

it("explains the sum at one of the copies of a leaf", () => {
  const sum = /sum for a leaf/;
  expect(entriesOf({ copies: true, labels: [label({ ofCopies: true })] }).join()).toMatch(sum);
  expect(entriesOf({ copies: true, labels: [label({})] }).join()).not.toMatch(sum);
});
