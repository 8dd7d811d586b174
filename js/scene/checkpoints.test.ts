import { describe, expect, it } from "vitest";
import { PLAIN_NODE } from "../demo/build_graph";
import { estimate } from "../text/measure";
import type { CheckpointModel, GraphModel } from "../wire";
import { groupTitle } from "./box_words";
import { isMarked, regionOf, regionWords } from "./checkpoints";
import { wordsOf } from "./node_words";

const region = (box: string | null, saves = "", parent: number | null = null): CheckpointModel => ({
  parent,
  box,
  saves,
  about: "",
});

const graph = (...checkpoints: CheckpointModel[]): GraphModel => ({
  static: false,
  modules: { namespaces: [], classes: [], names: [] },
  ranks: null,
  plan: null,
  nodes: [],
  edges: [],
  roots: [],
  checkpoints,
  derivatives: [],
});

const node = (checkpoint: number | null, sign: string | null = null) => ({
  ...PLAIN_NODE,
  id: 0,
  kind: "op" as const,
  op: "SinBackward0",
  label: "",
  sign,
  checkpoint,
});

describe("a checkpointed region", () => {
  it("marks the box that it is, with what it saves where that is known", () => {
    const found = graph(
      region("layers/0", "saves 38 MiB"),
      region(null),
      region("a/checkpoint f()"),
    );
    expect(regionOf(found, "layers/0")).toBe(found.checkpoints[0]);
    expect(regionOf(found, "layers")).toBeNull();
    expect(regionOf(found, "")).toBeNull();
    expect(regionWords(found.checkpoints[0])).toBe("↻ saves 38 MiB");
    expect(regionWords(found.checkpoints[2])).toBe("↻ runs again");
  });

  it("marks its nodes only where no box around them says it", () => {
    const found = graph(region("a"), region(null, "", 0), region(null), region(null, "", 2));
    expect([null, 0, 1, 2, 3].map((nr) => isMarked(found, node(nr)))).toEqual([
      false,
      false,
      false,
      true,
      true,
    ]);
    const title = (sign: string | null, again: boolean) => {
      const words = wordsOf(node(2, sign), [], 1, estimate, again);
      return [words.title, words.sign];
    };
    expect(title("sin", true)).toEqual(["SinBackward0", "↻ sin"]);
    expect(title(null, true)).toEqual(["↻ SinBackward0", null]);
    expect(title("sin", false)).toEqual(["SinBackward0", "sin"]);
  });

  it("is not part of the names of its modules", () => {
    expect(groupTitle("net/checkpoint f()/0")).toBe("net.0");
    expect(groupTitle("checkpoint f()/0")).toBe("0");
    expect(groupTitle("net/checkpoint f()")).toBe("checkpoint f()");
    expect(groupTitle("torch.func.vmap over 2/torch.func.grad/0")).toBe("0");
    expect(groupTitle("torch.func.vmap over 2")).toBe("torch.func.vmap over 2");
  });
});
