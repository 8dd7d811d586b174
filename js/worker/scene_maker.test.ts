import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { transformer } from "../demo/deep_models";
import { firstFolding, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import type { Scene } from "../scene/scene";
import { type FakeWorker, fakeWorker } from "../testing/worker";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import type { SceneOrder } from "./messages";
import { type SceneAnswers, SceneMaker, type StartWorker } from "./scene_maker";

const graph = transformer(2);
const grouped = groupedGraph(graph);
const source = { given: graph, constants: true, torchNames: false };

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function order(depth: number): SceneOrder {
  const folding = toDepth(grouped.tree, firstFolding(grouped.tree), depth);
  return { folding, direction: "down", room: { width: 1200, height: 600 } };
}

function made(depth: number): Scene {
  return foldedScene(grouped, order(depth).folding, "down", estimate);
}

function makerOf(start: StartWorker) {
  const texts: string[] = [];
  const scenes: Scene[] = [];
  const answers = (name: string): SceneAnswers => ({
    doing: (doing) => texts.push(`${name} ${doing}`),
    made(scene) {
      texts.push(`${name} made`);
      scenes.push(scene);
    },
    failed: ({ message }) => texts.push(`${name} failed: ${message}`),
    unavailable: () => texts.push(`${name} unavailable`),
  });
  const maker = new SceneMaker(start, estimate);
  const ask = (name: string, depth: number, given: GraphModel = graph) =>
    maker.make({ ...source, given }, order(depth), answers(name));
  return { maker, ask, texts, scenes };
}

/** Makers with fake workers, listed in the order of their start. */
function withWorkers(make: () => FakeWorker = fakeWorker) {
  const workers: FakeWorker[] = [];
  const start = () => {
    workers.push(make());
    return workers[workers.length - 1];
  };
  return { workers, ...makerOf(start) };
}

const settle = () => vi.advanceTimersByTimeAsync(100);

describe("a maker of scenes", () => {
  it("has a scene made in its worker that is the same as one made here", async () => {
    const { ask, texts, scenes } = withWorkers();
    ask("first", 1);
    expect(texts).toEqual([]);
    await settle();
    expect(texts).toEqual(["first drawing", "first made"]);
    expect(scenes[0]).toEqual(made(1));
  });

  it("sends a graph once", async () => {
    const { ask, texts, workers } = withWorkers();
    ask("first", 1);
    await settle();
    workers[0].hold();
    ask("second", 2);
    expect(workers[0].waiting()).toMatchObject([{ kind: "scene" }]);
    ask("third", 2, structuredClone(graph));
    workers[0].go();
    await settle();
    expect(texts.filter((words) => words.endsWith("made"))).toEqual(["first made", "third made"]);
  });

  it("answers only the latest of several requests", async () => {
    const { ask, texts, scenes, workers } = withWorkers();
    ask("first", 1);
    ask("second", 2);
    ask("third", 0);
    await settle();
    expect(texts.filter((words) => words.endsWith("made"))).toEqual(["third made"]);
    expect(scenes[0]).toEqual(made(0));
    expect(workers).toHaveLength(1);
  });

  it("ends a worker that goes on with what nobody waits for any more", async () => {
    const { ask, texts, workers } = withWorkers();
    ask("warm", 0);
    await settle();
    workers[0].hold();
    ask("overtaken", 2);
    ask("wanted", 1);
    await vi.advanceTimersByTimeAsync(200);
    expect(workers[0].ended).toBe(false);
    await vi.advanceTimersByTimeAsync(400);
    expect(workers.map(({ ended }) => ended)).toEqual([true, false]);
    expect(texts.filter((words) => words.endsWith("made"))).toEqual(["warm made", "wanted made"]);
  });

  it("forgets what is cancelled, and can be asked again", async () => {
    const { maker, ask, texts, workers } = withWorkers();
    ask("warm", 0);
    await settle();
    workers[0].hold();
    ask("cancelled", 1);
    maker.cancel();
    expect(workers.map(({ ended }) => ended)).toEqual([true, false]);
    ask("again", 1);
    await settle();
    expect(texts.filter((words) => !/^warm|layout|drawing/.test(words))).toEqual(["again made"]);
  });

  it("tells that a graph cannot be drawn, and goes on", async () => {
    const { ask, texts } = withWorkers();
    ask("wrong", 1, { ...graph, nodes: [] });
    await settle();
    expect(texts).toHaveLength(1);
    expect(texts[0]).toMatch(/^wrong failed: ./);
    ask("right", 1);
    await settle();
    expect(texts[texts.length - 1]).toBe("right made");
  });

  it("starts another worker after one that broke", async () => {
    const { ask, texts, workers } = withWorkers();
    ask("warm", 0);
    await settle();
    workers[0].hold();
    ask("broken", 1);
    workers[0].onerror?.({ message: "out of memory" } as ErrorEvent);
    expect(texts[texts.length - 1]).toMatch(/^broken failed: .*out of memory.*Show less at once/);
    ask("next", 1);
    await settle();
    expect(texts[texts.length - 1]).toBe("next made");
    expect(workers).toHaveLength(2);
  });

  it("ends its worker with the widget, also in the middle of something", async () => {
    const { maker, ask, texts, workers } = withWorkers();
    ask("first", 1);
    await vi.advanceTimersByTimeAsync(1);
    maker.end();
    await settle();
    expect(texts.some((words) => words.endsWith("made"))).toBe(false);
    expect(workers.every(({ ended }) => ended)).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("without a worker", () => {
  it.each<[string, StartWorker]>([
    ["none can be made", () => null],
    [
      "making one throws",
      () => {
        throw new Error("SecurityError");
      },
    ],
  ])("it says so at once: %s", (_, start) => {
    const { ask, texts } = makerOf(start);
    ask("first", 1);
    expect(texts).toEqual(["first unavailable"]);
  });

  it("it says so when the worker does not greet, and never asks it again", async () => {
    const { ask, texts, workers } = withWorkers(() => fakeWorker(estimate, false));
    ask("first", 1);
    await vi.advanceTimersByTimeAsync(1000);
    expect(texts).toEqual([]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(texts).toEqual(["first unavailable"]);
    ask("second", 1);
    expect(texts).toEqual(["first unavailable", "second unavailable"]);
    expect(workers.map(({ ended }) => ended)).toEqual([true]);
  });

  it("it says so when the worker is refused", async () => {
    const { ask, texts, workers } = withWorkers(() => fakeWorker(estimate, false));
    ask("first", 1);
    workers[0].onerror?.({} as ErrorEvent);
    expect(texts).toEqual(["first unavailable"]);
  });

  it("it says so when the worker has other fonts", async () => {
    const { ask, texts } = withWorkers(() => fakeWorker((text) => 7 * text.length));
    ask("first", 1);
    await settle();
    expect(texts).toEqual(["first unavailable"]);
  });
});
