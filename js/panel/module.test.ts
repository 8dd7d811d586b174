// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { localChannel, type Traits } from "../channel";
import { Builder } from "../demo/build_graph";
import { perceptron } from "../demo/deep_models";
import { nextFrame, testPage } from "../testing/browser";
import { freshTraits } from "../testing/traits";
import { createView } from "../view";
import type { GraphModel } from "../wire";

const page = testPage(8000, 8000);

const EVIL = "<img src=x onerror=alert(1)>";

async function view(graph: GraphModel = perceptron()) {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localChannel<Traits>(freshTraits(graph));
  page.remove = createView(host, channel);
  await nextFrame();
  const one = <E extends Element = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const click = async (selector: string) => {
    one(selector).dispatchEvent(new MouseEvent("click", { bubbles: true }));
    await nextFrame();
  };
  const press = async (key: string) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    one(".gw-canvas").dispatchEvent(event);
    await nextFrame();
  };
  const depth = async (value: string) => {
    one<HTMLSelectElement>(".gw-depth").value = value;
    one(".gw-depth").dispatchEvent(new Event("change"));
    await nextFrame();
  };
  const action = async (text: string) => {
    const buttons = [...host.querySelectorAll<HTMLElement>(".gw-actions button")];
    buttons.find((button) => button.textContent === text)?.click();
    await nextFrame();
  };
  const title = () => one(".gw-panel .gw-title").textContent;
  const selected = () =>
    [...host.querySelectorAll<SVGGElement>(".gw-svg .is-selected")].map(
      (element) => element.dataset.group ?? element.dataset.path,
    );
  return { host, channel, one, click, press, depth, action, title, selected };
}

/** A list of two modules that differ, in a network with another one. */
function shortList(): GraphModel {
  const g = new Builder();
  g.namespace = "net/first";
  let x = g.op("SinBackward0", [4], { self: g.leaf("net.first.w", [4]) });
  g.namespace = "net/list/0";
  x = g.op("MulBackward0", [4], { self: x, other: g.leaf("net.list.0.w", [4]) });
  x = g.op("TanhBackward0", [4], { self: x });
  g.namespace = "net/list/1";
  x = g.op("AddBackward0", [4], { self: x, other: g.leaf("net.list.1.w", [4, 4]) });
  x = g.op("SinBackward0", [4], { self: x });
  g.namespace = "";
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

/** Four similar blocks in a row. */
function fourBlocks(): GraphModel {
  const g = new Builder();
  g.namespace = "";
  let x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
  for (let i = 0; i < 4; i++) {
    g.namespace = `net/${i}`;
    const product = g.op("MulBackward0", [4], { self: x, other: g.leaf(`net.${i}.w`, [4]) });
    x = g.op("TanhBackward0", [4], { self: product });
  }
  g.namespace = "";
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

const BOX = '.gw-svg .gw-node[data-group="net/0"] .gw-box';

describe("a module in the panel", () => {
  it("opens at a click on its closed box, without a request to Python", async () => {
    const { channel, one, click, depth, title, selected } = await view();
    await depth("1");
    channel.set("selected", 0);
    await click(BOX);
    expect(channel.get("selected")).toBeNull();
    expect(title()).toBe("net.0");
    expect(selected()).toEqual(["net/0"]);
    const text = one(".gw-panel").textContent;
    expect(text).toContain("2 tensors, 4,160 elements"); // 64 * 64 weights and 64 biases
    expect(text).toContain("class not known (watched)");
  });

  it("lets go by Escape, by a click on the ground and by the next node", async () => {
    const { channel, click, press, depth, title, selected } = await view();
    await depth("1");
    await click(BOX);
    await press("Escape"); // the tooltip may take one
    await press("Escape");
    expect([title(), selected()]).toEqual(["Autograd graph", []]);
    await click(BOX);
    await click(".gw-svg");
    expect([title(), selected()]).toEqual(["Autograd graph", []]);
    await click(BOX);
    channel.set("selected", 0);
    await nextFrame();
    expect([title(), selected()]).toEqual(["loss", [undefined]]);
  });

  it("is shown by a click on the head of its frame, and opened and closed from the panel", async () => {
    const { one, click, depth, action, title, selected } = await view();
    await depth("all");
    await click('.gw-frame-heads .gw-group-frame[data-path="net"] .gw-frame-head text');
    expect(title()).toBe("net");
    expect(new Set(selected())).toEqual(new Set(["net"]));
    await action("Close");
    expect(one('.gw-svg .gw-node[data-group="net"]')).not.toBeNull();
    expect([title(), selected()]).toEqual(["net", ["net"]]);
    await action("Open");
    expect(one('.gw-svg .gw-node[data-group="net"]')).toBeNull();
    expect(title()).toBe("net");
  });

  it("is a list, closed again from the panel or by the sign of its frame", async () => {
    const { one, click, depth, action, title } = await view(shortList());
    await depth("1");
    await click('.gw-svg .gw-node[data-group="net/list"] .gw-box');
    await action("Open");
    expect(one('.gw-svg .gw-node[data-group="net/list/1"]')).not.toBeNull();
    expect(title()).toBe("net.list");
    await action("Close");
    expect(one('.gw-svg .gw-node[data-group="net/list"]')).not.toBeNull();
    await action("Open");
    await click('.gw-frame-heads .gw-group-frame[data-path="net/list"] .gw-frame-sign rect');
    expect(one('.gw-svg .gw-node[data-group="net/list"]')).not.toBeNull();
  });

  it("is shown by the keyboard: Space selects the box that Enter opens", async () => {
    const { one, press, depth, title } = await view();
    await depth("1");
    one(".gw-canvas").focus();
    await nextFrame();
    await press("ArrowDown");
    await press(" ");
    expect(title()).toBe("net.4");
    await press("Enter");
    expect(one('.gw-svg .gw-node[data-group="net/4"]')).toBeNull();
  });

  it("is a block of a strip by a click on its bar, and is opened from the panel", async () => {
    const { one, click, depth, action, title, selected } = await view(fourBlocks());
    await depth("1");
    await click('.gw-svg .gw-strip-bar[data-group="net/2"] .gw-box');
    expect([title(), selected()]).toEqual(["net.2", ["net/2"]]);
    await action("Open");
    expect(one('.gw-svg .gw-group-frame[data-path="net/2"] .gw-frame-title').textContent).toBe(
      "net.2",
    );
    expect(new Set(selected())).toEqual(new Set(["net/2"]));
    await action("Close");
    expect(one('.gw-svg .gw-group-frame[data-path="net/2"]')).toBeNull();
    expect(one('.gw-svg .gw-strip-bar[data-group="net/2"]')).not.toBeNull();
  });

  it("leads to its nodes", async () => {
    const { channel, one, click, depth } = await view();
    await depth("1");
    await click(BOX);
    const link = one('[data-section="module Parameters"] .gw-link');
    expect(link.dataset.lmSuppressShortcuts).toBe("true");
    link.click();
    await nextFrame();
    expect(channel.get("selected")).toBe(Number(link.dataset.goto));
  });

  it("shows hostile names as text, and its class on the box", async () => {
    const given = perceptron();
    const rename = (space: string | null) => space?.replace("net", EVIL) ?? null;
    const path = `${EVIL}/0`;
    const nodes = given.nodes.map((node) => ({ ...node, namespace: rename(node.namespace) }));
    const modules = { namespaces: [path], classes: [0], names: [EVIL] };
    const { host, one, click, depth } = await view({ ...given, nodes, modules });
    await depth("1");
    const box = [...host.querySelectorAll<SVGGElement>(".gw-svg .gw-closed")].find(
      (each) => each.dataset.group === path,
    ) as SVGGElement;
    expect(box.textContent).toMatch(/<img.*<img/);
    box.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    await nextFrame();
    expect(one(".gw-panel .gw-op-name").textContent).toBe(`${EVIL} (watched)`);
    expect(host.querySelector("img")).toBeNull();
    await click(".gw-svg");
  });
});
