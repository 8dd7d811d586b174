// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { localChannel, type Traits } from "../../channel";
import { MODELS } from "../../demo/models";
import { nextFrame, testPage } from "../../testing/browser";
import { detailsOf } from "../../testing/details";
import { fakeRun } from "../../testing/fake_run";
import { freshTraits } from "../../testing/traits";
import { createView } from "../../view";
import type { EditModel, WhatIfModel } from "../../wire";
import { changeText, percentText, shareText } from "./words";

const page = testPage();

const EVIL = "<img src=x onerror=alert(1)>";

const ANSWER: WhatIfModel = {
  failed: null,
  edits: [
    { label: EVIL, was: { values: -2, norm: 2 }, now: null },
    { label: "b", was: { values: 1, norm: 1 }, now: { values: 0.5, norm: 0.5 } },
  ],
  leaves: [
    {
      node: 2,
      name: EVIL,
      before: { values: 4, norm: 4 },
      after: { values: 1, norm: 1 },
      difference: { values: -3, norm: 3 },
      rest: 0.25,
      named: [],
    },
    {
      node: 3,
      name: "b",
      before: { values: 1, norm: 1 },
      after: { values: 1, norm: 1 },
      difference: null,
      rest: null,
      named: [],
    },
  ],
  leaf_count: 5,
  names: [],
  reached: [1],
  nodes: [{ node: 1, after: null }],
  ran: 1,
  code: "h = h.detach()\n",
  notes: ["A sentence."],
};

const PLAIN = { name: null, off: false };
const cut = (...edge: [number, number]): EditModel => ({
  kind: "cut",
  edge,
  value: null,
  ...PLAIN,
});
const half = (...edge: [number, number]): EditModel => ({
  ...{ kind: "scale", edge, value: 0.5, ...PLAIN },
});

async function view(change: Partial<Traits> = {}, asks = true) {
  const host = document.body.appendChild(document.createElement("div"));
  const graph = MODELS["h = w * x + b"]();
  const channel = localChannel(
    freshTraits(graph, {
      ...(asks ? { edits: [], effect: null, _shares: [] } : {}),
      constants: true,
      ...change,
    }),
  );
  page.remove = createView(host, channel);
  await nextFrame();
  const all = (selector: string) => [...host.querySelectorAll<HTMLElement>(selector)];
  const one = (selector: string) => host.querySelector<HTMLElement>(selector) as HTMLElement;
  return { host, graph, channel, all, one };
}

describe("a graph that backward has freed", () => {
  const words = "Run the forward pass again.";
  it("has grey tools, and one sentence that says what to do", async () => {
    const { all, one, channel, graph } = await view({ _edits_blocked: words });
    channel.change("details", detailsOf(graph, 1));
    channel.set("selected", 1);
    await nextFrame();
    const notes = all(".gw-what-if .gw-note").map((note) => note.textContent);
    expect(notes).toEqual([words]);
    const tools = all(".gw-edge-tools button, .gw-edge-tools input") as HTMLButtonElement[];
    expect(tools.length).toBeGreaterThan(0);
    expect(tools.every((tool) => tool.disabled)).toBe(true);
    expect(one(".gw-edge-tools button").title).toBe(words);
  });

  it("has no scissors for a cut without an answer", async () => {
    const failed = { ...ANSWER, failed: words, edits: [], leaves: [], reached: [], nodes: [] };
    const { all } = await view({ edits: [cut(0, 0)], effect: failed });
    expect(all(".gw-edit-badge")).toEqual([]);
    expect(all(".gw-what-if .gw-note").map((note) => note.textContent)).toEqual([words]);
  });
});

describe("what if", () => {
  it("lists edits, leaves and code, as text", async () => {
    const { host, all, one } = await view({
      edits: [cut(0, 0), half(0, 1)],
      effect: ANSWER,
    });
    expect(host.querySelector("img")).toBeNull();
    expect(all(".gw-edit-list li")).toHaveLength(2);
    expect(one(".gw-edit-list li").textContent).toContain("−2 → nothing");
    expect(all(".gw-leaf-changes tbody tr").map((row) => row.className)).toEqual([
      "is-changed",
      "",
    ]);
    expect(one(".gw-leaf-changes tbody").textContent).toContain("41−3");
    expect(one(".gw-what-if").textContent).toContain("and 3 more leaves");
    expect(one(".gw-code").textContent).toBe("h = h.detach()");
    expect(one(".gw-what-if").textContent).toContain("A sentence.");
    expect(all(".gw-edit-badge")).toHaveLength(2);
    expect(all(".gw-edited.is-cut")).toHaveLength(1);
    expect(all(".gw-leaf-change")).toHaveLength(1);
  });

  it("writes new gradients large over the old ones, and a tag where a cell shows another number", async () => {
    const graph = MODELS["h = w * x + b"]();
    const { steps, run } = fakeRun(graph, "fine");
    const { all } = await view({
      ...{ edits: [cut(0, 0)], effect: ANSWER, constants: false },
      ...{ _steps: steps, run, cursor: steps.length },
    });
    expect(all(".gw-new-grad text:not(.gw-was)").map(({ textContent }) => textContent)).toEqual([
      "None",
    ]);
    expect(all(".gw-new-grad .gw-was")[0].textContent).toMatch(/^was \[1\]/);
    expect(all(".gw-leaf-change")).toHaveLength(1);
  });

  it("sets a long new gradient as small as its cell asks for", async () => {
    const graph = MODELS["h = w * x + b"]();
    const { steps, run } = fakeRun(graph, "fine");
    const sizeOf = async (value: number) => {
      const nodes = [{ node: 1, after: { values: value, norm: Math.abs(value) } }];
      const { all } = await view({
        ...{ edits: [cut(0, 0)], effect: { ...ANSWER, nodes }, constants: false },
        ...{ _steps: steps, run, cursor: steps.length },
      });
      const [number] = all(".gw-new-grad text:not(.gw-was)");
      page.remove();
      return { text: number.textContent, size: Number.parseFloat(number.style.fontSize) };
    };
    expect(await sizeOf(5)).toEqual({ text: "5", size: 20 });
    const { text, size } = await sizeOf(-1.3351e-5);
    expect(text).toMatch(/^−1\.3\d*e−5$/);
    expect(size).toBeGreaterThan(11);
    expect(size).toBeLessThan(20);
  });

  it("is in the bar as far as it fits, with a note that the panel has the rest", async () => {
    const named = (name: string): EditModel => ({ ...cut(0, 0), name });
    const { channel, one } = await view({ edits: [cut(0, 0), half(0, 1)], effect: ANSWER });
    const words = () => one(".gw-bar-text").textContent;
    expect(words()).toContain(`what if  2 edits, ${EVIL}.grad would be 1, not 4`);
    expect(words()).not.toContain("b.grad");
    channel.change("effect", { ...ANSWER, names: ["no skip", "half"] });
    expect(words()).toContain("no skip and half side by side in the panel");
    const [leaf] = ANSWER.leaves;
    const leaves = Array.from({ length: 5 }, (_, i) => ({ ...leaf, name: `w${i}` }));
    channel.change("effect", { ...ANSWER, leaves });
    expect(words()).toContain("w2.grad would be 1, not 4, 2 more in the panel");
    channel.change("effect", { ...ANSWER, leaves: [ANSWER.leaves[1]] });
    expect(words()).toContain("2 edits, every .grad would be the same");
    channel.change("edits", [{ ...named("a"), off: true }, named("b")]);
    expect(words()).toContain("2 edits, 1 on");
    channel.change("effect", { ...ANSWER, leaves: [], failed: "It was freed." });
    expect(words()).toContain("without effect: see the panel");
    channel.change("edits", []);
    channel.change("effect", null);
    expect(words()).not.toContain("what if");
  });

  it("undoes one edit, or all of them", async () => {
    const edits: EditModel[] = [cut(0, 0), half(0, 1)];
    const { channel, all, one } = await view({ edits, effect: ANSWER });
    all(".gw-edit-list button")[0].click();
    expect(channel.get("edits")).toEqual([edits[1]]);
    channel.change("edits", edits);
    one(".gw-edits-head button").click();
    expect(channel.get("edits")).toEqual([]);
  });

  it("switches an edit off and on, and names it; keys stay where they are", async () => {
    const { channel, all, one } = await view({ edits: [cut(0, 0), half(0, 1)], effect: ANSWER });
    const set = (selector: string, change: (field: HTMLInputElement) => void) => {
      const field = all(selector)[1] as HTMLInputElement;
      field.focus();
      change(field);
      field.dispatchEvent(new Event("change"));
      expect(document.activeElement).toBe(all(selector)[1]);
    };
    set(".gw-edit-list input[type=checkbox]", (field) => {
      field.checked = false;
    });
    expect(channel.get("edits")).toEqual([cut(0, 0), { ...half(0, 1), off: true }]);
    expect(one(".gw-edit-list li.is-off").textContent).toContain("off");
    expect(all(".gw-edit-badge")).toHaveLength(1);
    set(".gw-edit-name", (field) => {
      field.value = ` ${EVIL} `;
    });
    expect(channel.get("edits")?.[1].name).toBe(EVIL);
    set(".gw-edit-name", (field) => {
      field.value = " ";
    });
    expect(channel.get("edits")?.[1].name).toBeNull();
  });

  it("compares what is named, and marks what the picture shows", async () => {
    const edits = [
      { ...cut(0, 0), name: EVIL },
      { ...half(0, 1), name: "B", off: true },
    ];
    const named = (a: number, b: number) =>
      [a, b].map((value) => ({ after: { values: value, norm: value }, changed: value !== 4 }));
    const compared: WhatIfModel = {
      ...ANSWER,
      names: [EVIL, "B"],
      leaves: [{ ...ANSWER.leaves[0], named: named(1, 4) }],
    };
    const { host, channel, all } = await view({ edits, effect: compared });
    expect(host.querySelector(".gw-leaf-changes img")).toBeNull();
    const heads = () =>
      Array.from(all(".gw-leaf-changes thead th"), (head) => [
        head.textContent,
        head.getAttribute("aria-current"),
      ]);
    const plain = [
      ["leaf", null],
      ["before", null],
    ];
    expect(heads()).toEqual([...plain, [EVIL, "true"], ["B", null]]);
    const cells = () => all(".gw-leaf-changes tbody td");
    expect(cells().map(({ textContent }) => textContent)).toEqual(["4", "1", "4"]);
    expect(cells().map(({ className }) => className)).toEqual(["", "is-changed", ""]);
    channel.change("edits", [edits[0], { ...edits[1], off: false }]);
    expect(heads()).toEqual([...plain, [EVIL, null], ["B", null], ["all on", "true"]]);
  });

  it("cuts and scales an edge that is clicked, by its tools", async () => {
    const { host, channel, one, all, graph } = await view();
    const line = one(".gw-edge:not(.is-quiet) .gw-line");
    const [x, y] = (line.getAttribute("d") ?? "").slice(1).split("C")[0].split(",").map(Number);
    const layer = one(".gw-layer").getAttribute("transform") ?? "";
    const [left, top, k] = (layer.match(/-?[\d.]+/g) ?? []).map(Number);
    const at = { clientX: left + k * x, clientY: top + k * y, bubbles: true };
    host.querySelector(".gw-svg")?.dispatchEvent(new MouseEvent("click", at));
    expect(one(".gw-edge-bar").hidden).toBe(false);
    (one(".gw-edge-bar button") as HTMLButtonElement).click();
    const [edit] = channel.get("edits") ?? [];
    expect(edit.kind).toBe("cut");
    const place = graph.edges.findIndex(
      ({ source, arg_nr }) => source === edit.edge[0] && arg_nr === edit.edge[1],
    );
    expect(graph.edges[place].kind).toBe("gradient");
    expect(one('.gw-edge-bar button[aria-pressed="true"]')).not.toBeNull();
    const factor = one(".gw-edge-bar .gw-factor") as HTMLInputElement;
    factor.value = "1/4";
    factor.dispatchEvent(new Event("change"));
    expect(channel.get("edits")).toEqual([{ ...edit, kind: "scale", value: 0.25 }]);
    const again = one(".gw-edge-bar .gw-factor") as HTMLInputElement;
    again.value = "much";
    again.dispatchEvent(new Event("change"));
    expect(again.getAttribute("aria-invalid")).toBe("true");
    expect(channel.get("edits")).toHaveLength(1);
    const instead = () => all(".gw-edge-bar .gw-factor")[1] as HTMLInputElement;
    const type = (text: string) => {
      const field = instead();
      field.value = text;
      field.dispatchEvent(new Event("change"));
    };
    type("[1, \u22122]");
    expect(channel.get("edits")).toEqual([{ ...edit, kind: "replace", value: [1, -2] }]);
    expect(instead().value).toBe("[1, \u22122]");
    type("");
    expect(channel.get("edits")).toEqual([]);
  });

  it("offers the edges into the selected node, and lights the way of a share", async () => {
    const { channel, all, one, graph } = await view();
    const [first] = graph.edges.filter(({ kind }) => kind === "gradient");
    channel.change("details", detailsOf(graph, first.target));
    channel.set("selected", first.target);
    await nextFrame();
    const rows = graph.edges.filter((e) => e.kind === "gradient" && e.target === first.target);
    expect(all(".gw-edge-list li")).toHaveLength(rows.length);
    channel.change("_shares", [
      { consumer: first.source, arg_nr: first.arg_nr ?? 0, label: "out", share: 0.8357 },
    ]);
    expect(one(".gw-share").textContent).toBe("84 % of this gradient comes through out.");
    one(".gw-share").click();
    expect(all(".gw-way").length).toBeGreaterThan(0);
    one(".gw-share").click();
    expect(all(".gw-way")).toHaveLength(0);
  });

  it("explains why it is unknown, and that it waits", async () => {
    const edits: EditModel[] = [cut(0, 0)];
    const { channel, one } = await view({ edits });
    expect(one(".gw-what-if").textContent).toContain("Waiting for Python");
    channel.change("effect", { ...ANSWER, failed: "It was freed.", edits: [], leaves: [] });
    expect(one(".gw-what-if").textContent).toContain("It was freed.");
  });

  it("closes with the panel, and opens with the next edit", async () => {
    const edits: EditModel[] = [cut(0, 0)];
    const { channel, one } = await view({ edits, effect: ANSWER });
    expect(one(".gw-panel").hidden).toBe(false);
    one(".gw-panel-close").click();
    expect(one(".gw-panel").hidden).toBe(true);
    channel.change("edits", [...edits, cut(0, 1)]);
    expect(one(".gw-panel").hidden).toBe(false);
  });

  it("is not there where nobody could answer", async () => {
    const { all } = await view({ selected: 0 }, false);
    expect(all(".gw-what-if, .gw-edge-list")).toHaveLength(0);
  });
});

describe("its words", () => {
  const leaf = ANSWER.leaves[0];
  it("show the amount", () => {
    expect(changeText(leaf)).toBe("−3");
    expect(percentText(leaf)).toBe("−75 %");
    expect(percentText({ ...leaf, rest: 2 })).toBe("+100 %");
    expect(percentText({ ...leaf, rest: null })).toBeNull();
    const share = { consumer: 0, arg_nr: 0, label: "h", share: -0.2 };
    expect(shareText(share)).toBe("h takes 20 % of this gradient back.");
    expect(shareText({ ...share, share: 0.001 })).toBe(
      "Less than 1 % of this gradient comes through h.",
    );
  });
});
