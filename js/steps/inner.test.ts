// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import { localChannel, type Traits } from "../channel";
import { nextFrame, testPage } from "../testing/browser";
import { graphOf } from "../testing/panes";
import { createView } from "../view";
import type { GraphModel, RunModel, StepModel } from "../wire";
import { backwardCursor, flowedAt, recordingOf, shownCursor, stateAt } from "./recording";
import { describeState, positionText } from "./words";

const BOX = "SquareBackward";
const page = testPage();

/**
 * sum ← square ← w; inside of the square `t` uses a saved tensor, `mm` the gradient and that, and `view` returns the
 * result.
 */
function opened(): GraphModel {
  const graph = graphOf(
    ["- op Sum", `- op ${BOX}`, "w leaf", "t call t", "mm call mm", "view call view", "s constant"],
    ["0 1 self", "1 2 -", "1 4 self", "4 5 self", "5 3 other constant", "3 6 self constant"],
  );
  graph.edges[4] = { ...graph.edges[4], source: 4, target: 3 };
  for (const id of [3, 4, 5, 6]) Object.assign(graph.nodes[id], { inside: 1, namespace: BOX });
  graph.nodes[1].namespace = BOX;
  graph.edges[1].via = 5;
  return graph;
}

const PLAIN = { name: null, accumulated: null };
const STEPS: StepModel[] = [
  { ...PLAIN, step: 1, node: 0, op: "Sum", ready: 0 },
  { ...PLAIN, step: 2, node: 1, op: BOX, ready: 1 },
  { ...PLAIN, step: 3, node: 2, op: "AccumulateGrad", ready: 2, accumulated: "w.grad", name: "w" },
];
const GROWN = { values: 4, norm: 4, before: null, changed: false, now: null };
const RUN: RunModel = {
  run: 1,
  ended: "done",
  seeds: [{ node: 0, output_nr: 0, values: 1, norm: 1 }],
  edges: [0, 1, 2, 3],
  values: [2, 4, 2, 3],
  norms: [2, 4, 2, 3],
  arrived: [],
  grads: [{ node: 2, ...GROWN }],
  marks: [],
};
const recording = recordingOf(opened(), STEPS, RUN);
const at = (cursor: number) => positionText({ recording, cursor }, opened());

describe("steps through what is open", () => {
  it("goes through the calls before the node passes on", () => {
    expect(recording.steps.map(({ node, of, inner }) => [node, of, inner])).toEqual([
      [0, 1, 0],
      [3, 2, 1],
      [4, 2, 2],
      [5, 2, 3],
      [1, 2, 0],
      [2, 3, 0],
    ]);
    expect(recording.total).toBe(3);
  });

  it("finds every place again, and none beyond", () => {
    for (let cursor = 0; cursor <= recording.steps.length; cursor++)
      expect(shownCursor(recording, ...backwardCursor(recording, cursor))).toBe(cursor);
    expect(shownCursor(recording, 2, 99)).toBe(5);
    expect(shownCursor(recording, 1, 1)).toBe(1);
    expect(shownCursor(recording, 99, 1)).toBe(6);
    expect(shownCursor(recording, null, 1)).toBe(0);
    expect(shownCursor(recording, 0, 3)).toBe(0);
  });

  it("takes each call from waiting to done, while the node around it runs", () => {
    const states = (node: number) =>
      [1, 2, 3, 4, 5, 6].map((cursor) => stateAt(recording, node, cursor));
    expect(states(3)).toEqual(["waiting", "running", "done", "done", "done", "done"]);
    // The gradient and the result of `t` exist after the first call.
    expect(states(4)).toEqual(["waiting", "ready", "running", "done", "done", "done"]);
    expect(states(5)).toEqual(["waiting", "waiting", "ready", "running", "done", "done"]);
    expect(states(1)).toEqual(["ready", "running", "running", "running", "running", "done"]);
    expect(states(2)).toEqual(["waiting", "waiting", "waiting", "waiting", "ready", "running"]);
  });

  it("lets gradients in with the first call, and on when all is over", () => {
    const flowing = [0, 1, 2, 3].map((edge) =>
      [0, 1, 2, 3, 4, 5].findIndex((cursor) => flowedAt(recording, edge, cursor)),
    );
    expect(flowing).toEqual([1, 5, 2, 3]);
  });

  it("says what happened", () => {
    expect([1, 2, 3, 4, 5].map(at)).toEqual([
      `step 1 of 3: Sum, passes 2 on to ${BOX}`,
      "step 2 of 3, call 1 of 3: t t, gives (1,)",
      "step 2 of 3, call 2 of 3: mm mm, passes 3 on to view view",
      "step 2 of 3, call 3 of 3: view view, gives 4 for w",
      `step 2 of 3: ${BOX}, passes 4 to w`,
    ]);
    const words = (node: number, cursor: number) => describeState({ recording, cursor }, node);
    expect(words(4, 1)).toBe("waiting for gradients: it runs in step 2 of 3, call 2 of 3");
    expect(words(4, 3)).toBe("running: step 2 of 3, call 2 of 3");
    expect(words(1, 3)).toBe("running: step 2 of 3");
    expect(words(2, 3)).toBe("waiting for gradients: it runs in step 3 of 3");
  });
});

function shown(change: Partial<Traits> = {}, views = 1) {
  const channel = localChannel<Traits>({
    model: opened(),
    details: null,
    state: { runs: 1, reached: [], flowed: [], freed: [], note: "" },
    _fault: null,
    selected: null,
    direction: "down",
    constants: true,
    cursor: 1,
    _steps: STEPS,
    run: RUN,
    transport: { owned: true, note: null, blocked: null },
    ...change,
  } as Traits);
  const hosts = Array.from({ length: views }, () => {
    const host = document.body.appendChild(document.createElement("div"));
    page.remove = createView(host, channel);
    return host;
  });
  const [host] = hosts;
  const step = async (label: string) => {
    host.querySelector<HTMLElement>(`.gw-bar [aria-label="${label}"]`)?.click();
    await nextFrame();
    return [channel.get("cursor"), ...(channel.get("_inner") ?? [])];
  };
  const lit = (of = host) =>
    [...of.querySelectorAll<HTMLElement>(".gw-svg .gw-node.is-running")].map(({ dataset }) =>
      dataset.group ? dataset.group : Number(dataset.node),
    );
  const text = (of = host) => of.querySelector(".gw-bar-text")?.textContent ?? "";
  return { channel, hosts, host, step, lit, text };
}

describe("the view", () => {
  it("tells Python within which step it is, and lights up what runs", async () => {
    const { step, lit, host } = shown();
    const places: unknown[] = [];
    for (let i = 0; i < 5; i++) places.push(await step("One step"));
    // A position within a step only applies to its cursor.
    expect(places).toEqual([
      [2, 2, 1],
      [2, 2, 2],
      [2, 2, 3],
      [2, 2, 0],
      [3, 2, 0],
    ]);
    await step("One step back");
    await step("One step back");
    expect(await step("One step back")).toEqual([2, 2, 2]);
    expect(lit().sort()).toEqual([1, 4]);
    const badges = [3, 4, 5].map(
      (id) => host.querySelector(`[data-node="${id}"] .gw-badge-step`)?.textContent,
    );
    expect(badges).toEqual(["2.1", "2.2", "2.3"]);
    expect(await step("To the start")).toEqual([0, 0, 0]);
  });

  it("follows Python inside, and back to the node when it is closed", async () => {
    const { channel, text, lit, step } = shown();
    channel.change("_inner", [2, 2]);
    await nextFrame();
    expect(text()).toContain("step 1 of 3");
    channel.change("cursor", 2);
    await nextFrame();
    expect(text()).toContain("call 2 of 3");
    const graph = graphOf(["- op Sum", `- op ${BOX}`, "w leaf"], ["0 1 self", "1 2 -"]);
    channel.change("model", graph);
    channel.change("run", { ...RUN, edges: [0, 1], values: [2, 4], norms: [2, 4] });
    await nextFrame();
    expect(text()).toContain("step 2 of 3");
    expect(text()).not.toContain("call");
    expect(lit()).toEqual([1]);
    expect(await step("One step back")).toEqual([1, 1, 0]);
  });

  it("keeps two views of one model alike", async () => {
    const { step, hosts, text, lit } = shown({}, 2);
    for (let i = 0; i < 3; i++) await step("One step");
    expect(text()).toContain("call 3 of 3");
    expect(text(hosts[1])).toBe(text());
    expect(lit(hosts[1])).toEqual(lit());
    await step("To the start");
    await step("One step");
    expect(text(hosts[1])).toBe(text());
  });

  it("goes over in one step what nobody sees, in a closed box", async () => {
    const { host, step } = shown();
    host
      .querySelector(`.gw-group-frame[data-path="${BOX}"] .gw-frame-sign`)
      ?.dispatchEvent(new MouseEvent("click", { bubbles: true, detail: 1 }));
    await nextFrame();
    expect(host.querySelector(`[data-group="${BOX}"]`)).not.toBeNull();
    expect((await step("One step"))[0]).toBe(2);
    expect((await step("One step"))[0]).toBe(3);
    await step("One step back");
    expect((await step("One step back"))[0]).toBe(1);
  });

  it("plays through it", async () => {
    vi.useFakeTimers();
    const { host, text } = shown();
    host.querySelector<HTMLElement>('.gw-bar [aria-label="Play"]')?.click();
    vi.advanceTimersByTime(1500);
    expect(text()).toContain("call 2 of 3");
    vi.advanceTimersByTime(5000);
    expect(text()).toContain("backward done · 3 steps");
  });
});
