// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import { localChannel, type Traits } from "./channel";
import { Builder } from "./demo/build_graph";
import { eventually, testPage } from "./testing/browser";
import { freshTraits } from "./testing/traits";
import { type FakeWorker, fakeWorker } from "./testing/worker";
import { createView } from "./view";
import type { GraphModel } from "./wire";
import type { StartWorker } from "./worker/scene_maker";

/** More blocks of three nodes than are drawn at once when open. */
const BLOCKS = 520;

const page = testPage(1000, 600);

function blocks(count: number): GraphModel {
  const g = new Builder();
  let x = g.leaf("x", [4]);
  for (let i = 0; i < count; i++) {
    g.namespace = `net/${i}`;
    for (const op of ["Sin", "Cos", "Tanh"]) x = g.op(`${op}Backward0`, [4], { self: x });
  }
  g.namespace = "";
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

const GRAPH = blocks(BLOCKS);
/** A node in the middle of the graph. */
const INNER = 700;

function viewOf(startWorker: StartWorker, change: Partial<Traits> = {}) {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localChannel<Traits>(freshTraits(GRAPH, change));
  page.remove = createView(host, channel, startWorker);
  const one = <E extends HTMLElement = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const openTo = (depth: string) => {
    const select = one<HTMLSelectElement>(".gw-depth");
    select.value = depth;
    select.dispatchEvent(new Event("change"));
  };
  return {
    host,
    channel,
    one,
    openTo,
    depth: () => one<HTMLSelectElement>(".gw-depth").value,
    /** The number of closed boxes: one in the overview of these graphs, none if all are open. */
    boxes: () => host.querySelectorAll(".gw-open-sign").length,
    isWorking: () => !one(".gw-progress").hidden,
    words: () => one(".gw-progress-text").textContent,
    press: (text: string) =>
      [...host.querySelectorAll<HTMLElement>("button")]
        .find((button) => button.textContent === text)
        ?.click(),
  };
}

function withWorker(change: Partial<Traits> = {}) {
  const workers: FakeWorker[] = [];
  const view = viewOf(() => {
    workers.push(fakeWorker());
    return workers[workers.length - 1];
  }, change);
  return { ...view, workers };
}

const later = (ms: number) => new Promise((done) => setTimeout(done, ms));

describe("a picture of many nodes", () => {
  it("leaves the one before it alone until it is there", async () => {
    const { openTo, boxes, workers } = withWorker();
    await eventually(() => expect(workers).toHaveLength(1));
    expect(boxes()).toBe(1);
    openTo("all");
    expect(boxes()).toBe(1);
    await eventually(() => expect(boxes()).toBe(0));
  });

  it("says after half a second what it waits for, and is cancelled by a button", async () => {
    const { openTo, boxes, depth, isWorking, words, press, workers } = withWorker();
    await later(20);
    workers[0].hold();
    openTo("all");
    await later(200);
    expect(isWorking()).toBe(false);
    await later(400);
    expect(isWorking()).toBe(true);
    expect(words()).toBe("Laying out 1,562 nodes…");
    expect(depth()).toBe("all");
    press("Cancel");
    expect(isWorking()).toBe(false);
    expect(depth()).toBe("0");
    expect(workers[0].ended).toBe(true);
    await later(100);
    expect(boxes()).toBe(1);
  });

  it("is cancelled by Escape, with the keyboard back in the drawing", async () => {
    const { openTo, depth, isWorking, one, workers } = withWorker();
    await later(20);
    workers[0].hold();
    openTo("all");
    await later(600);
    const cancel = one(".gw-progress button");
    cancel.focus();
    cancel.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    expect(isWorking()).toBe(false);
    expect(depth()).toBe("0");
    expect(document.activeElement).toBe(one(".gw-canvas"));
  });

  it("takes back a direction whose picture is cancelled", async () => {
    const { channel, openTo, one, press, boxes, workers } = withWorker();
    await later(20);
    openTo("all");
    await eventually(() => expect(boxes()).toBe(0));
    workers[0].hold();
    channel.set("direction", "right");
    await later(600);
    press("Cancel");
    expect(channel.get("direction")).toBe("down");
    one<HTMLElement>('[aria-label="Legend and keys"]').click();
    expect(one<HTMLSelectElement>(".gw-direction-choice").value).toBe("down");
    expect(workers).toHaveLength(2);
    expect(one(".gw-progress").hidden).toBe(true);
  });

  it("moves to a node that was selected meanwhile once it shows it", async () => {
    const { channel, openTo, host, workers } = withWorker();
    await later(20);
    workers[0].hold();
    openTo("all");
    channel.set("selected", INNER);
    expect(host.querySelector(`[data-node="${INNER}"]`)).toBeNull();
    workers[0].go();
    await eventually(() => expect(host.querySelector(`[data-node="${INNER}"]`)).not.toBeNull());
  });

  it("is overtaken by a small one that is asked for later", async () => {
    const { openTo, boxes, depth, isWorking, workers } = withWorker();
    await later(20);
    workers[0].hold();
    openTo("all");
    openTo("0");
    workers[0].go();
    await later(1500);
    expect([boxes(), depth(), isWorking()]).toEqual([1, "0", false]);
  });

  it("says in the widget what went wrong in the worker", async () => {
    const { openTo, one, depth, boxes, workers } = withWorker();
    await later(20);
    workers[0].hold();
    openTo("all");
    workers[0].onerror?.({ message: "Out of memory." } as ErrorEvent);
    expect(one(".gw-fault").textContent).toMatch(/could not be made: Out of memory/);
    expect([boxes(), depth()]).toEqual([1, "0"]);
  });

  it("ends its worker with the widget", async () => {
    const { workers } = withWorker();
    await later(20);
    page.remove();
    expect(workers.map(({ ended }) => ended)).toEqual([true]);
  });

  it("is drawn by the page itself without a worker, after a message", async () => {
    const { openTo, one, boxes, isWorking, words } = viewOf(() => null);
    await later(20);
    openTo("all");
    expect(isWorking()).toBe(true);
    expect(words()).toBe("Laying out 1,562 nodes…");
    expect(one<HTMLButtonElement>(".gw-progress button").hidden).toBe(true);
    await eventually(() => expect(boxes()).toBe(0));
    expect(isWorking()).toBe(false);
  });
});

describe("a first picture of many nodes", () => {
  const whole = {
    ...GRAPH,
    nodes: GRAPH.nodes.map((node) => ({ ...node, namespace: null })),
  };

  it("can be cancelled and asked for again", async () => {
    const workers: FakeWorker[] = [];
    const { host, isWorking, words, press, one } = viewOf(
      () => {
        workers.push(fakeWorker());
        if (workers.length === 1) workers[0].hold();
        return workers[workers.length - 1];
      },
      { model: whole },
    );
    await later(600);
    press("Cancel");
    expect(isWorking()).toBe(true);
    expect(words()).toBe("This graph is not drawn: its picture was cancelled.");
    expect(document.activeElement).toBe(one(".gw-progress button"));
    expect(host.querySelector(".gw-node")).toBeNull();
    press("Draw it");
    await eventually(() => expect(host.querySelector(".gw-node")).not.toBeNull());
    expect(isWorking()).toBe(false);
  });
});

it("a small picture needs no worker", async () => {
  const start = vi.fn(() => fakeWorker());
  const { host } = viewOf(start, { model: blocks(20) });
  await later(20);
  expect(host.querySelector(".gw-node")).not.toBeNull();
  expect(start).not.toHaveBeenCalled();
});
