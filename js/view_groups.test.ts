// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { localChannel, type Traits } from "./channel";
import { Builder } from "./demo/build_graph";
import { fakeBrowser, nextFrame, testPage } from "./testing/browser";
import { fakeRun } from "./testing/fake_run";
import { freshTraits } from "./testing/traits";
import { createView } from "./view";
import type { GraphModel } from "./wire";

const page = testPage(8000, 8000);

/** Blocks in a row, each with a view, a product and a tanh in it, under a loss; `count` 2 for a small graph. */
function blocks(count: number): GraphModel {
  const g = new Builder();
  g.namespace = "";
  let x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
  for (let i = 0; i < count; i++) {
    g.namespace = `net/block/${i}`;
    const flat = g.op("ViewBackward0", [4], { self: x });
    const product = g.op("MulBackward0", [4], { self: flat, other: g.leaf(`w${i}`, [4]) });
    x = g.op("TanhBackward0", [4], { self: product }, `h${i}`);
  }
  g.namespace = "";
  return g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
}

async function view(graph: GraphModel, change: Partial<Traits> = {}) {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localChannel<Traits>(freshTraits(graph, change));
  page.remove = createView(host, channel);
  await nextFrame();
  const one = <E extends Element = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const all = (selector: string) => [...host.querySelectorAll<HTMLElement>(selector)];
  const fire = async (target: Element, event: Event) => {
    target.dispatchEvent(event);
    await nextFrame();
  };
  const press = (key: string) =>
    fire(one(".gw-canvas"), new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const mouse = (type: "click" | "dblclick", selector: string) =>
    fire(one(selector), new MouseEvent(type, { bubbles: true, clientX: 4000, clientY: 4000 }));
  const choose = (selector: string, value: string) => {
    const select = one<HTMLSelectElement>(selector);
    select.value = value;
    return fire(select, new Event("change"));
  };
  const boxes = () => all(".gw-svg .gw-closed").map((box) => box.dataset.group);
  const frames = () => all(".gw-frames .gw-group-frame").map((frame) => frame.dataset.path);
  const idOf = (label: string) => graph.nodes.findIndex((node) => node.label === label);
  const node = (label: string) => one(`.gw-node[data-node="${idOf(label)}"]`);
  return { channel, one, all, press, mouse, choose, boxes, frames, idOf, node };
}

const numbersIn = (text: string | null) => (text?.match(/-?[\d.]+(e-?\d+)?/g) ?? []).map(Number);

describe("a small graph", () => {
  it("without modules has nothing to fold, and no choices about it", async () => {
    const graph = blocks(2);
    const plain = { ...graph, nodes: graph.nodes.map((node) => ({ ...node, namespace: null })) };
    const { one, all } = await view(plain);
    expect(one(".gw-colours").hidden).toBe(true);
    expect(one(".gw-depth").closest("label")?.hidden).toBe(true);
    expect(one('[aria-label="Fold repeats"]').hidden).toBe(true);
    expect(all(".gw-group-frame, .gw-closed, .gw-edge-folded")).toEqual([]);
    expect(all(".gw-node")).toHaveLength(plain.nodes.length);
  });

  it("with modules is open, with its plumbing", async () => {
    const { one, all, frames } = await view(blocks(2));
    expect(one(".gw-view").hidden).toBe(false);
    expect(frames()).toEqual(["net", "net/block", "net/block/1", "net/block/0"]);
    expect(all(".gw-node")).toHaveLength(blocks(2).nodes.length);
  });
});

describe("boxes", () => {
  it("close by a double click on the title and open by one on the box", async () => {
    const { mouse, boxes, frames } = await view(blocks(2));
    const head = '.gw-group-frame[data-path="net/block/0"] .gw-frame-head';
    await mouse("click", head);
    expect(boxes()).toEqual([]);
    await mouse("dblclick", head);
    expect(boxes()).toEqual(["net/block/0"]);
    expect(frames()).not.toContain("net/block/0");
    await mouse("click", '[data-group="net/block/0"] .gw-box');
    expect(boxes()).toEqual(["net/block/0"]);
    await mouse("dblclick", '[data-group="net/block/0"] .gw-box');
    expect(boxes()).toEqual([]);
  });

  it("stay open when their sign is clicked twice", async () => {
    const { one, all, boxes, mouse } = await view(blocks(2));
    await mouse("click", '.gw-group-frame[data-path="net/block/0"] .gw-frame-sign');
    const press = async (type: "click" | "dblclick", target: Element, detail: number) => {
      target.dispatchEvent(new MouseEvent(type, { bubbles: true, detail }));
      await nextFrame();
    };
    await press("click", one(".gw-svg .gw-open-sign"), 1);
    for (const type of ["click", "dblclick"] as const)
      await press(type, all('[data-path="net/block/0"] .gw-frame-sign')[0], 2);
    expect(boxes()).toEqual([]);
  });

  it("open and close by one click on their signs", async () => {
    const { mouse, boxes } = await view(blocks(2));
    await mouse("click", '.gw-group-frame[data-path="net"] .gw-frame-sign');
    expect(boxes()).toEqual(["net"]);
    await mouse("click", '[data-group="net"] .gw-open-sign');
    expect(boxes()).toEqual([]);
  });

  it("open by Enter and plus, close by minus, and keep the keyboard", async () => {
    const { one, press, boxes, channel } = await view(blocks(2));
    one(".gw-canvas").focus();
    await press("ArrowDown");
    await press("-");
    expect(boxes()).toEqual(["net/block/1"]);
    expect(one(".gw-svg .gw-closed").classList).toContain("is-focused");
    await press("-");
    expect(boxes()).toEqual(["net/block"]);
    await press("Enter");
    expect(boxes()).toEqual(["net/block/1"]);
    await press("+");
    expect(boxes()).toEqual([]);
    expect(channel.get("selected")).toBeNull();
    expect(one(".gw-node.is-focused")).not.toBeNull();
  });

  it("are selected from Python, also a second time", async () => {
    const { channel, one, idOf } = await view(blocks(3));
    const box = () => one('[data-group="net/block/0"]').classList;
    for (const number of [1, 2]) {
      channel.change("_box", { path: "net/block/0", number });
      await nextFrame();
      expect([...box()]).toContain("is-selected");
      channel.change("selected", idOf("h2"));
      await nextFrame();
      expect([...box()]).not.toContain("is-selected");
    }
  });

  it("are described, and no one node is selected by them", async () => {
    const { one, press, mouse, channel } = await view(blocks(2));
    await mouse("click", '.gw-group-frame[data-path="net/block/1"] .gw-frame-sign');
    one(".gw-canvas").focus();
    await press("Home");
    await press("ArrowDown");
    const words = one("[aria-live=polite].gw-visually-hidden").textContent;
    expect(words).toContain("net.block.1, module of 4 nodes, 1 leaf, output (4,)");
    await mouse("click", ".gw-svg .gw-closed .gw-box");
    expect(channel.get("selected")).toBeNull();
  });

  it("are not called modules where they hold operations outside of modules", async () => {
    for (const name of ["loss()", "loss = …"]) {
      const graph = blocks(2);
      for (const node of graph.nodes)
        if (node.namespace?.startsWith("net/block/1")) node.namespace = name;
      const { one, press, mouse } = await view(graph);
      await mouse("click", `.gw-group-frame[data-path="${name}"] .gw-frame-sign`);
      one(".gw-canvas").focus();
      await press("Home");
      await press("ArrowDown");
      const words = one("[aria-live=polite].gw-visually-hidden").textContent;
      expect(words).toContain(`${name}, no module, but a box of 4 nodes`);
      await mouse("click", ".gw-svg .gw-closed .gw-box");
      expect(one(".gw-panel").textContent).toContain("no module (watched)");
      page.remove();
    }
  });

  it("stay where they are seen when they open", async () => {
    const { one, mouse } = await view(blocks(2));
    const seen = (x: number, y: number) => {
      const [dx, dy, k] = numbersIn(one(".gw-layer").getAttribute("transform"));
      return [k * x + dx, k * y + dy];
    };
    await mouse("click", '.gw-group-frame[data-path="net/block/1"] .gw-frame-sign');
    const [x, y] = numbersIn(one(".gw-svg .gw-closed").getAttribute("transform"));
    const box = one(".gw-svg .gw-closed .gw-box");
    const before = seen(x + Number(box.getAttribute("x")), y + Number(box.getAttribute("y")));
    await mouse("click", ".gw-open-sign");
    const frame = one('.gw-group-frame[data-path="net/block/1"] .gw-frame-box');
    const [fx, fy] = ["x", "y"].map((name) => Number(frame.getAttribute(name)));
    const after = seen(fx, fy);
    expect(after[0]).toBeCloseTo(before[0], 3);
    expect(after[1]).toBeCloseTo(before[1], 3);
  });

  it("follow the choice of a depth, which says when it no longer fits", async () => {
    const { one, choose, boxes, mouse } = await view(blocks(2));
    const depth = () => one<HTMLSelectElement>(".gw-depth").selectedOptions[0].textContent;
    expect(depth()).toBe("all open");
    await choose(".gw-depth", "2");
    expect(boxes()).toEqual(["net/block/1", "net/block/0"]);
    expect(depth()).toBe("depth 2");
    await mouse("dblclick", '[data-group="net/block/1"] .gw-box');
    expect(depth()).toBe("automatic");
    await choose(".gw-depth", "0");
    expect(boxes()).toEqual(["net"]);
  });

  it("are a strip when they are alike, where a bar opens in its place", async () => {
    const { all, one, choose, mouse } = await view(blocks(5));
    await choose(".gw-depth", "2");
    const bars = () =>
      all(".gw-svg .gw-strip-bar")
        .map(({ dataset }) => dataset.group?.at(-1))
        .sort();
    const open = () =>
      all(".gw-svg .gw-frame-heads .gw-group-frame").flatMap(
        ({ dataset }) => /^net.block.(\d)$/.exec(dataset.path ?? "")?.[1] ?? [],
      );
    expect([bars().join(""), open()]).toEqual(["01234", []]);
    await mouse("dblclick", '.gw-strip-bar[data-group="net/block/1"] .gw-box');
    expect([bars().join(""), open()]).toEqual(["234", ["1"]]);
    // One is in no box: all is seen as before.
    expect(one(".gw-crumbs").textContent).not.toContain("›");
    await mouse("dblclick", '.gw-strip-bar[data-group="net/block/2"] .gw-box');
    expect([bars().join(""), open()]).toEqual(["0134", ["2"]]);
    await mouse("click", '.gw-group-frame[data-path="net/block/2"] .gw-frame-sign');
    expect([bars().join(""), open()]).toEqual(["01234", []]);
    await mouse("click", '[aria-label="Fold repeats"]');
    expect(bars()).toEqual([]);
    expect(all(".gw-svg .gw-closed")).toHaveLength(5);
  });
});

describe("the scale", () => {
  const scaleOf = (layer: Element) => numbersIn(layer.getAttribute("transform"))[2];

  it("stays when a block of a strip opens, even if the whole picture was in view", async () => {
    fakeBrowser(700, 500);
    const { one, press, choose, node, mouse } = await view(blocks(24));
    await choose(".gw-depth", "2");
    const before = scaleOf(one(".gw-layer"));
    await mouse("click", '.gw-strip-bar[data-group="net/block/20"] .gw-box');
    await press("+");
    expect(node("h20")).not.toBeNull();
    expect(scaleOf(one(".gw-layer"))).toBe(before);
  });

  it("fits another depth if the whole picture was in view, else stays", async () => {
    fakeBrowser(700, 500);
    const { one, mouse, choose } = await view(blocks(24));
    const fitted = () => {
      one('[aria-label^="Fit"]').click();
      return nextFrame();
    };
    await choose(".gw-depth", "all");
    const open = scaleOf(one(".gw-layer"));
    await choose(".gw-depth", "0");
    expect(scaleOf(one(".gw-layer"))).toBeGreaterThan(open);
    await fitted();
    for (let i = 0; i < 8; i++) await mouse("click", '[aria-label^="Zoom in"]');
    const near = scaleOf(one(".gw-layer"));
    await choose(".gw-depth", "all");
    expect(scaleOf(one(".gw-layer"))).toBe(near);
  });
});

describe("plumbing", () => {
  it("hides in edges and comes back by a click", async () => {
    const { all, mouse, node } = await view(blocks(2));
    const before = all(".gw-node").length;
    await mouse("click", '[aria-label="Hide views and transposes"]');
    expect(all(".gw-node")).toHaveLength(before - 2);
    expect(all(".gw-svg .gw-edge-folded").map((sign) => sign.textContent)).toEqual(
      Array(2).fill(expect.stringMatching(/^1 operation .*···$/)),
    );
    await mouse("click", ".gw-svg .gw-edge-folded");
    expect(all(".gw-node")).toHaveLength(before - 1);
    expect(node("x")).not.toBeNull();
  });

  it("is hidden in a large graph, whose modules are closed", async () => {
    const { boxes, all, one } = await view(blocks(80));
    expect(boxes()).toEqual([]);
    expect(all(".gw-svg .gw-strip-bar")).toHaveLength(80);
    const toggle = one('[aria-label="Hide views and transposes"]');
    expect(toggle.getAttribute("aria-pressed")).toBe("true");
  });
});

describe("a hidden node", () => {
  it("comes to light when it is selected, also from Python", async () => {
    const { channel, one, all, node, idOf } = await view(blocks(80));
    channel.change("selected", idOf("h30"));
    await nextFrame();
    expect(node("h30").classList).toContain("is-selected");
    expect(one('.gw-group-frame[data-path="net/block/30"] .gw-frame-title').textContent).toBe(
      "block.30",
    );
    expect(all('.gw-svg .gw-strip-bar[data-group="net/block/30"]')).toEqual([]);
  });

  it("is shown at the same scale, where its box was, by a selection and by a finding", async () => {
    const { channel, one, node, idOf } = await view(blocks(80));
    const place = () => numbersIn(one(".gw-layer").getAttribute("transform"));
    const cornerOf = (box: Element, x: number, y: number) => {
      const [dx, dy, k] = place();
      const [left, top] = ["x", "y"].map((name) => Number(box.getAttribute(name)));
      return [k * (x + left) + dx, k * (y + top) + dy].map(Math.round);
    };
    const scale = place()[2];
    for (const [block, how] of [
      [30, () => channel.change("selected", idOf("h30"))],
      [12, () => one(".gw-finding-message").click()],
    ] as const) {
      const nodes = [idOf(`h${block}`)];
      channel.change("_findings", [
        {
          kind: "vanishing",
          severity: "warning",
          nodes,
          message: "It vanishes.",
          numbers: [],
          module: null,
          line: null,
        },
      ]);
      const path = `net/block/${block}`;
      const bar = one(`.gw-svg .gw-strip-bar[data-group="${path}"]`);
      const [x, y] = numbersIn(bar.getAttribute("transform"));
      const before = cornerOf(bar.querySelector(".gw-box") as Element, x, y);
      how();
      await nextFrame();
      expect(place()[2]).toBe(scale);
      expect(node(`h${block}`).classList).toContain("is-selected");
      const frame = one(`.gw-group-frame[data-path="${path}"] .gw-frame-box`);
      expect(cornerOf(frame, 0, 0)).toEqual(before);
    }
  });

  it("is shown by a search, one at a time, until the search ends", async () => {
    const { one, node, all } = await view(blocks(80));
    const drawn = all(".gw-svg .gw-node").length;
    const before = one(".gw-layer").getAttribute("transform");
    const type = async (text: string) => {
      const field = one<HTMLInputElement>(".gw-search-field");
      field.value = text;
      field.dispatchEvent(new Event("input"));
      await nextFrame();
      expect(all(".gw-svg .gw-node")).toHaveLength(drawn);
      all(".gw-search-list li")[0]?.click();
      await nextFrame();
    };
    await type("h30");
    expect(node("h30").classList).toContain("is-current-hit");
    await type("h31");
    expect(node("h31").classList).toContain("is-current-hit");
    expect(node("h30")).toBeNull();
    await type("");
    expect(node("h31")).toBeNull();
    expect(all(".gw-svg .gw-node")).toHaveLength(drawn);
    expect(one(".gw-layer").getAttribute("transform")).toBe(before);
  });

  it("stays once it is selected, when the search goes on", async () => {
    const { channel, one, all, node, idOf } = await view(blocks(80));
    const field = one<HTMLInputElement>(".gw-search-field");
    const type = async (text: string) => {
      field.value = text;
      field.dispatchEvent(new Event("input"));
      all(".gw-search-list li")[0].click();
      await nextFrame();
    };
    await type("h30");
    channel.change("selected", idOf("h30"));
    await nextFrame();
    await type("h12");
    expect(node("h12").classList).toContain("is-current-hit");
    expect(node("h30").classList).toContain("is-selected");
  });

  it("is selected while its box is closed: the box shows it", async () => {
    const { channel, mouse, one, idOf } = await view(blocks(2));
    channel.change("selected", idOf("w0"));
    await nextFrame();
    await mouse("click", '.gw-group-frame[data-path="net/block/0"] .gw-frame-sign');
    expect(one('[data-group="net/block/0"]').classList).toContain("is-selected");
  });
});

describe("backward", () => {
  it("shows on a closed box what happens inside", async () => {
    const graph = blocks(2);
    const { steps, run } = fakeRun(graph, "nan");
    const { channel, one, mouse } = await view(graph, { _steps: steps, run });
    await mouse("click", '.gw-group-frame[data-path="net/block/0"] .gw-frame-sign');
    const box = () => one('[data-group="net/block/0"]').classList;
    const inside = steps.filter(({ node }) => graph.nodes[node].namespace === "net/block/0");
    expect(box()).toContain("is-waiting");
    channel.change("cursor", inside[0].step);
    await nextFrame();
    expect(box()).toContain("is-running");
    channel.change("cursor", steps.length);
    await nextFrame();
    expect(one('[data-group="net/block/0"] .gw-badge-alarm').textContent).toBe("NaN");
  });

  it("lights up whatever hides the node that runs: its box, or the edge that it is folded into", async () => {
    const graph = blocks(2);
    const { steps, run } = fakeRun(graph, "fine");
    const { channel, all, mouse } = await view(graph, { _steps: steps, run, cursor: 0 });
    await mouse("click", '[aria-label="Hide views and transposes"]');
    await mouse("click", '.gw-group-frame[data-path="net/block/0"] .gw-frame-sign');
    for (const { step, node } of steps.slice(0, -1)) {
      channel.change("cursor", step);
      await nextFrame();
      const [lit, ...more] = all(".gw-svg :is(.gw-node, .gw-edge).is-running");
      expect(more).toEqual([]);
      const { op, namespace } = graph.nodes[node];
      if (namespace === "net/block/0" && !lit.classList.contains("gw-leaf"))
        expect(lit.dataset.group).toBe("net/block/0");
      else if (op === "ViewBackward0") expect(lit.querySelector(".gw-edge-folded")).not.toBeNull();
      else expect(lit.dataset.node ?? lit.dataset.group).toBeDefined();
    }
    channel.change("cursor", steps.length);
    await nextFrame();
    expect(all(".gw-svg .is-running")).toEqual([]);
  });

  it("colours by the norms once there are some", async () => {
    const graph = blocks(2);
    const { steps, run } = fakeRun(graph, "fine");
    const { channel, one, all, choose } = await view(graph);
    const option = () => one<HTMLOptionElement>('.gw-colour-by option[value="gradient"]');
    expect(option().disabled).toBe(true);
    channel.change("run", run);
    channel.change("_steps", steps);
    await nextFrame();
    expect(option().disabled).toBe(false);
    await choose(".gw-colour-by", "gradient");
    expect(all(".gw-node.is-tinted")).toHaveLength(graph.nodes.length);
    expect(one(".gw-colour-key").querySelectorAll(".gw-tick").length).toBeGreaterThan(1);
    await choose(".gw-colour-by", "none");
    expect(all(".is-tinted")).toEqual([]);
    expect(one(".gw-colour-key").hidden).toBe(true);
  });
});

describe("findings", () => {
  it("lead to the node that they are about", async () => {
    const { channel, one, node, idOf } = await view(blocks(60));
    expect(one(".gw-findings").hidden).toBe(true);
    channel.change("_findings", [
      {
        kind: "vanishing",
        severity: "warning",
        nodes: [idOf("h12")],
        message: "The gradient vanishes.",
        numbers: [],
        module: null,
        line: null,
      },
    ]);
    one(".gw-finding-message").click();
    await nextFrame();
    expect(channel.get("selected")).toBe(idOf("h12"));
    expect(node("h12").classList).toContain("is-selected");
  });
});
