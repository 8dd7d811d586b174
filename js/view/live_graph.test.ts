// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { localChannel } from "../channel";
import { Builder } from "../demo/build_graph";
import { nextFrame, testPage } from "../testing/browser";
import { freshTraits } from "../testing/traits";
import { createView } from "../view";
import type { GraphModel } from "../wire";

const page = testPage(1800, 900);

/** (w * x), squared, optionally after a ReLU: ids 0 to 3, or 0 to 4. */
function graph(w: number, branch = false): GraphModel {
  const b = new Builder();
  const [leafW, leafX] = [b.leaf("w", []), b.leaf("x", [])];
  const product = b.op("MulBackward0", [], { self: leafW, other: leafX }, "pred");
  const inner = branch ? b.op("ReluBackward0", [], { self: product }) : product;
  const made = b.graph([b.op("PowBackward0", [], { self: inner }), "loss"]);
  const numbers: Record<string, number> = { w, x: 2, pred: 2 * w };
  return {
    ...made,
    nodes: made.nodes.map((node) => ({ ...node, value: numbers[node.name ?? ""] ?? 4 * w * w })),
  };
}

async function view() {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localChannel(freshTraits(graph(1), { direction: "left" }));
  page.remove = createView(host, channel);
  await nextFrame();
  const places = () =>
    new Map(
      Array.from(host.querySelectorAll<SVGGElement>(".gw-node"), (node) => [
        node.dataset.node,
        node.getAttribute("transform"),
      ]),
    );
  const camera = () => host.querySelector(".gw-layer")?.getAttribute("transform");
  const texts = (id: number) =>
    Array.from(host.querySelectorAll(`.gw-node[data-node="${id}"] text`), (t) => t.textContent);
  return { host, channel, places, camera, texts };
}

const sentences = (host: Element) => host.querySelector(".gw-bar-text")?.textContent;

describe("an update with the same structure", () => {
  it("changes the numbers and moves nothing, with what is selected", async () => {
    const { host, channel, places, camera, texts } = await view();
    channel.set("selected", 1);
    await nextFrame();
    const before = [places(), camera()];
    channel.change("_update", {
      ...{ number: 1, before: null, words: "graph unchanged" },
      changes: [{ name: "w", was: 1, now: -123456.7 }],
    });
    channel.change("_values", [4, -2.5, -123456.7, 2]);
    await nextFrame();
    expect([places(), camera()]).toEqual(before);
    expect(texts(2)).toContain("\u22121.235e5");
    expect(texts(1)).toContain("\u22122.5");
    expect(host.querySelector(".is-selected")?.getAttribute("data-node")).toBe("1");
    expect(sentences(host)).toContain("w 1 → \u22121.235e5, graph unchanged");
  });

  it("keeps the elements of the picture, which then are as if they were drawn anew", async () => {
    const VALUES = [
      [4, -2.5, -123456.7, 2],
      [1e-9, "nan", 3, -2.25],
      [0.5, 7, 7, 7],
    ];
    const { host, channel } = await view();
    const parts = () => [...host.querySelectorAll(".gw-node, .gw-node *")];
    const drawn = (within: Element) =>
      Array.from(within.querySelectorAll(".gw-node"), (node) => node.innerHTML);
    const before = parts();
    for (const [i, values] of VALUES.entries()) {
      channel.change("_update", { number: i + 1, before: null, words: "", changes: [] });
      channel.change("_values", values);
      await nextFrame();
      expect(parts()).toEqual(before);
      const other = document.body.appendChild(document.createElement("div"));
      const first = freshTraits(graph(1), { direction: "left" });
      const fresh = localChannel(first);
      const end = createView(other, fresh);
      await nextFrame();
      fresh.change("_update", { number: 1, before: null, words: "", changes: [] });
      fresh.change("_values", values);
      await nextFrame();
      expect(drawn(host)).toEqual(drawn(other));
      end();
    }
  });

  it("takes traits in whatever order they come", async () => {
    const { channel, texts } = await view();
    channel.change("_values", [4, 4, 7, 2]);
    channel.change("_update", { number: 1, before: null, words: "", changes: [] });
    await nextFrame();
    expect(texts(2)).toContain("7");
  });
});

describe("an update with another structure", () => {
  const BEFORE = [0, null, 1, 2, 3];

  async function branched(order: "first" | "last") {
    const shown = await view();
    const { channel } = shown;
    channel.set("selected", 1);
    await nextFrame();
    const update = { number: 1, before: BEFORE, words: "new: relu", changes: [] };
    if (order === "first") channel.change("_update", update);
    channel.change("model", graph(3, true));
    // Steps of the new graph, which has one more node.
    const step = { op: "AccumulateGrad", name: "x", accumulated: "x.grad", ready: 0 };
    channel.change("_steps", [{ ...step, step: 1, node: 4 }]);
    channel.change("cursor", 1);
    channel.change("selected", 2);
    if (order === "last") channel.change("_update", update);
    await nextFrame();
    await nextFrame();
    return shown;
  }

  it("keeps what is selected and says what is new", async () => {
    const { host, places } = await branched("first");
    expect(places().size).toBe(5);
    expect(host.querySelector(".is-selected")?.getAttribute("data-node")).toBe("2");
    expect(sentences(host)).toContain("new: relu");
    expect(host.querySelector(".gw-fault")).toBeNull();
  });

  it("leaves some node where it was seen", async () => {
    const { host, camera, places, channel } = await view();
    const seen = () => {
      const [x, y, k] = (camera()?.match(/-?[\d.]+/g) ?? []).map(Number);
      return Array.from(places(), ([, at]) => {
        const [a, b] = (at?.match(/-?[\d.]+/g) ?? []).map(Number);
        return `${Math.round(x + k * a)} ${Math.round(y + k * b)}`;
      });
    };
    const before = seen();
    channel.change("_update", { number: 1, before: BEFORE, words: "new: relu", changes: [] });
    channel.change("model", graph(3, true));
    await nextFrame();
    await nextFrame();
    const after = new Set(seen());
    expect(before.some((place) => after.has(place))).toBe(true);
    expect(host.querySelectorAll(".gw-node")).toHaveLength(5);
  });

  it("does not fail where traits come one by one, the update last", async () => {
    const { host, places } = await branched("last");
    expect(places().size).toBe(5);
    expect(host.querySelector(".gw-fault")).toBeNull();
  });
});
