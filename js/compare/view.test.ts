// @vitest-environment jsdom

import { describe, expect, it, vi } from "vitest";
import widget from "../comparison";
import { eventually, fakeBrowser, nextFrame, testPage } from "../testing/browser";
import { compareTraits, localComparison, MEMBERS, PANES, passOf } from "../testing/panes";
import type { CompareTraits } from "../wire";
import { createComparison } from "./view";

const page = testPage();

async function view(change: Partial<CompareTraits> = {}) {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localComparison(change);
  page.remove = createComparison(host, channel);
  await nextFrame();
  const one = <E extends Element = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const pane = (p: number) => host.querySelectorAll(".gw-pane")[p];
  const node = (p: number, id: number) =>
    pane(p).querySelector<SVGGElement>(`.gw-node[data-node="${id}"]`) as SVGGElement;
  const click = async (target: Element) => {
    target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    await nextFrame();
  };
  return { host, channel, one, pane, node, click };
}

const RAN: Partial<CompareTraits> = {
  passes: [
    passOf(PANES[0].graph, [0, 1, 4]),
    passOf(PANES[1].graph, [0, 1, 4, 5]),
    passOf(PANES[2].graph, null),
  ],
  _steps: [
    { node: 0, passes: [0, 1] },
    { node: 1, passes: [0, 1] },
    { node: 5, passes: [1] },
    { node: 4, passes: [0, 1] },
  ],
  cursor: 2,
};

describe("static graphs beside each other", () => {
  const panes = PANES.map((pane) => ({ ...pane, graph: { ...pane.graph, static: true } }));

  it("flow down like one alone, without a bar that steps nowhere and a table without numbers", async () => {
    const { one, host } = await view({ panes, direction: "auto" });
    for (const path of host.querySelectorAll(".gw-pane .gw-edge .gw-line")) {
      const numbers = (path.getAttribute("d")?.match(/-?[\d.]+/g) ?? []).map(Number);
      // From a tensor's users up to the node that makes it.
      expect(numbers[1]).toBeGreaterThan(numbers[numbers.length - 1]);
    }
    expect(one(".gw-bar").hidden).toBe(true);
    expect(one(".gw-leaves").hidden).toBe(true);
  });

  it("beside one of autograd's has both", async () => {
    const { one } = await view({ panes: [PANES[0], ...panes.slice(1)] });
    expect(one(".gw-bar").hidden).toBe(false);
    expect(one(".gw-leaves").hidden).toBe(false);
  });
});

describe("the panes", () => {
  const style = async (width: number, outerHeight: number) => {
    fakeBrowser(width);
    vi.stubGlobal("outerHeight", outerHeight);
    const { one } = await view();
    const { style } = one(".gw-panes");
    return ["--gw-columns", "--gw-height"].map((name) =>
      Number.parseInt(style.getPropertyValue(name), 10),
    );
  };

  it.each([
    [1400, 3],
    [768, 2],
    [400, 1],
  ])("are side by side where cards are readable: %d px in %d columns", async (width, columns) => {
    expect((await style(width, 1000))[0]).toBe(columns);
  });

  it("leave the table of leaves in sight in a low window", async () => {
    const [, high] = await style(1400, 1000);
    const [, low] = await style(1400, 600);
    expect(high).toBeGreaterThan(240);
    expect(high).toBeLessThanOrEqual(500);
    expect(low).toBeGreaterThanOrEqual(240);
    expect(low).toBeLessThanOrEqual(300);
  });
});

describe("the comparison", () => {
  it("shows every graph under its label, which stays text", async () => {
    const { host, pane } = await view();
    expect(host.querySelectorAll(".gw-pane")).toHaveLength(3);
    expect(pane(1).querySelector(".gw-pane-label")?.textContent).toBe("<b>clone</b>");
    expect(pane(1).querySelectorAll(".gw-node")).toHaveLength(6);
    expect(host.querySelector("i")).toBeNull();
    expect(host.textContent).toContain("<i>x</i>");
  });

  it("marks in words what others lack, and leaves an outline where a graph lacks something", async () => {
    const { pane, one } = await view();
    const tags = [...pane(1).querySelectorAll(".gw-only-tag")].map((tag) => tag.textContent);
    expect(tags.sort()).toEqual(["in 2 of 3", "only here"]);
    expect(pane(0).querySelectorAll(".gw-ghost")).toHaveLength(1);
    expect(one(".gw-legend").textContent).toContain("what this graph lacks");
  });

  it("selects in all panes at once, from each of them and from Python", async () => {
    const { channel, node, click, pane } = await view();
    await click(node(1, 5).querySelector(".gw-box") as Element);
    expect(channel.get("selected")).toBe(4);
    expect(node(0, 4).classList).toContain("is-selected");
    expect(node(1, 5).classList).toContain("is-selected");
    expect(pane(2).querySelector(".gw-ghost.is-selected")).not.toBeNull();
    channel.change("selected", 3);
    await nextFrame();
    for (const p of [0, 1, 2]) expect(node(p, 3).classList).toContain("is-selected");
    expect(pane(2).querySelector(".gw-ghost.is-selected")).toBeNull();
  });

  it("selects by the outline of what a graph lacks", async () => {
    const { channel, pane, click } = await view();
    await click(pane(2).querySelector(".gw-ghost") as Element);
    expect(channel.get("selected")).toBe(4);
  });

  it("hides constants, and shows them again", async () => {
    const { one, pane, click, channel } = await view({ selected: 6 });
    const constants = () => pane(2).querySelectorAll(".gw-node.gw-constant").length;
    expect(constants()).toBe(1);
    await click(one('[aria-label="Constants and cuts"]'));
    expect(constants()).toBe(0);
    expect(one(".gw-fault")).toBeNull();
    expect(pane(2).querySelectorAll(".gw-node")).toHaveLength(4);
    expect(channel.get("selected")).toBe(6);
    expect(channel.get("constants")).toBe(false);
    await click(one('[aria-label="Constants and cuts"]'));
    expect(constants()).toBe(1);
    channel.change("constants", false);
    await nextFrame();
    expect(constants()).toBe(0);
  });

  it("can save and copy all pictures as one", async () => {
    const { one, click } = await view();
    vi.stubGlobal("URL", { createObjectURL: () => "blob:x", revokeObjectURL: () => {} });
    const files: string[] = [];
    one(".gw-toolbar").addEventListener("click", (event) => {
      const link = (event.target as Element).closest("a");
      if (link) files.push(link.download);
      if (link) event.preventDefault();
    });
    await click(one('[aria-label="Save picture"]'));
    await click(one("[role=menuitem]"));
    await eventually(() => expect(files).not.toEqual([]));
    expect(files).toEqual([expect.stringMatching(/clone.*\.svg$/)]);
  });

  it("hovers in all panes at once", async () => {
    const { node } = await view();
    node(0, 1).dispatchEvent(new MouseEvent("pointermove", { bubbles: true }));
    await nextFrame();
    for (const p of [0, 1, 2]) expect(node(p, 1).classList).toContain("is-hovered");
  });

  it("looks at the same part in all panes", async () => {
    const { host, click } = await view();
    const views = () =>
      [...host.querySelectorAll(".gw-layer")].map((layer) => layer.getAttribute("transform"));
    const before = views();
    await click(host.querySelector('[aria-label="Zoom in"]') as Element);
    expect(views()[0]).not.toBe(before[0]);
    expect(new Set(views()).size).toBe(1);
  });

  it("steps through all passes as one", async () => {
    const { channel, node, one, click } = await view(RAN);
    expect(node(0, 1).classList).toContain("is-running");
    expect(node(1, 1).classList).toContain("is-running");
    await click(one('[aria-label="One step"]'));
    await nextFrame();
    expect(channel.get("cursor")).toBe(3);
    expect(node(0, 1).classList).toContain("is-done");
    expect(node(1, 4).classList).toContain("is-running");
    expect(one(".gw-bar-text").textContent).toContain("only in <b>clone</b>");
    channel.change("cursor", 4);
    await nextFrame();
    // All cards are done, so they show only their numbers.
    expect(node(0, 4).classList).toContain("is-reached");
    expect(node(1, 5).classList).toContain("is-reached");
  });

  it.each([
    ["passes", "_steps"],
    ["_steps", "passes"],
  ] as const)(
    "follows a backward that Python has just run: first %s, then %s",
    async (...order) => {
      const { channel, node, one, click, host } = await view();
      await click(one('[aria-label="One step"]'));
      expect(one(".gw-bar-text").textContent).toContain("Running backward");
      const after = { ...RAN, cursor: 1 } as CompareTraits;
      for (const trait of order) channel.change(trait, after[trait]);
      channel.change("cursor", 1);
      await nextFrame();
      expect(host.querySelector(".gw-fault")).toBeNull();
      expect(node(0, 0).classList).toContain("is-running");
    },
  );

  it("lists the nodes that some graphs lack, and goes to them", async () => {
    const { channel, one } = await view();
    const rows = [...one(".gw-differences tbody").querySelectorAll("tr")];
    const lacking = MEMBERS.filter((of) => of.includes(null));
    expect(rows).toHaveLength(lacking.length);
    expect(rows[0].lastElementChild?.textContent).toMatch(/^(only )?in /);
    rows[0].querySelector("button")?.click();
    await nextFrame();
    expect(channel.get("selected")).toBe(MEMBERS.indexOf(lacking[0]));
  });

  it("finds in all panes", async () => {
    const { node, one } = await view();
    const field = one<HTMLInputElement>(".gw-search-field");
    field.value = "clone";
    field.dispatchEvent(new Event("input"));
    one(".gw-search-list li").click();
    await nextFrame();
    expect(node(1, 4).classList).toContain("is-current-hit");
    expect(node(0, 0).classList).toContain("is-dim");
  });

  it("says when it cannot be drawn, and recovers", async () => {
    const { channel, one } = await view({ panes: [] });
    expect(one(".gw-fault")).not.toBeNull();
    channel.change("panes", PANES);
    await nextFrame();
    expect(one(".gw-fault")).toBeNull();
    channel.change("_fault", "The backward of x failed.");
    expect(one(".gw-fault").textContent).toBe("The backward of x failed.");
  });
});

describe("the table of leaves", () => {
  it("sets gradients side by side, bold where they differ", async () => {
    const { host, one } = await view(RAN);
    const [x, w] = [...host.querySelectorAll(".gw-leaves tbody tr")];
    const texts = (row: Element) => [...row.querySelectorAll("td")].map((td) => td.textContent);
    expect(texts(x)).toEqual([
      ...["True", "True", "None", "[4]"],
      ...["True", "True", "None", "[4]"],
      "not in this graph",
    ]);
    expect(x.querySelectorAll(".is-different")).toHaveLength(0);
    expect(x.querySelector(".gw-differs")).not.toBeNull();
    expect(texts(w)[3]).toBe("[1]");
    expect(texts(w)[11]).toBe("‖2.5‖");
    expect([...w.querySelectorAll(".is-different")].map((td) => td.textContent)).toEqual([
      "[1]",
      "[2]",
      "‖2.5‖",
    ]);
    expect(one(".gw-leaves thead").textContent).toContain(".grad at step 2");
    expect(one(".gw-leaves thead").textContent).toContain(".grad now"); // the graph without a pass
  });

  it("selects a leaf, keeps the focus there, and counts the omitted ones", async () => {
    const { channel, host, one } = await view();
    const name = host.querySelectorAll<HTMLButtonElement>(".gw-leaves .gw-link")[1];
    name.focus();
    name.click();
    expect(channel.get("selected")).toBe(3);
    channel.change("table", { ...channel.get("table"), total: 90 });
    await nextFrame();
    expect(document.activeElement?.textContent).toBe("w");
    expect(host.querySelectorAll(".gw-leaves tr.is-selected")).toHaveLength(1);
    expect(one(".gw-leaves .gw-small").textContent).toContain("2 of 90 leaves");
  });
});

describe("a comparison as a widget", () => {
  const render = (traits: CompareTraits) => {
    const values: Record<string, unknown> = { ...traits };
    const model = {
      get: (name: string) => values[name],
      on: () => {},
      off: () => {},
      set: () => {},
      save_changes: () => {},
      send: () => {},
    };
    const el = document.body.appendChild(document.createElement("div"));
    return { el, end: widget.render({ model, el } as never) };
  };

  it("draws every pane, and leaves nothing behind", async () => {
    const { el, end } = render(compareTraits());
    await nextFrame();
    expect(el.querySelectorAll(".gw-pane")).toHaveLength(3);
    expect(page.observers()).toBeGreaterThan(0);
    end();
    expect(el.childNodes).toHaveLength(0);
    expect(page.observers()).toBe(0);
  });

  it("keeps every key from the page", async () => {
    const { host, one } = await view(RAN);
    const seen = vi.fn();
    document.addEventListener("keydown", seen);
    for (const target of [one(".gw-canvas"), one(".gw-search-field"), one(".gw-leaves button")])
      target.dispatchEvent(new KeyboardEvent("keydown", { key: "d", bubbles: true }));
    document.removeEventListener("keydown", seen);
    expect(seen).not.toHaveBeenCalled();
    for (const part of host.querySelectorAll("button, input, select, summary, [tabindex]"))
      expect(part.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
  });
});
