// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import { localChannel, type Traits } from "./channel";
import { MODELS } from "./demo/models";
import { nextFrame, testPage } from "./testing/browser";
import { withRanks } from "./testing/ranks";
import { freshTraits } from "./testing/traits";
import { createView } from "./view";

const EVIL = "<img src=x onerror=alert(1)>";
const page = testPage();

async function view(change: Partial<Traits> = {}) {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localChannel(
    freshTraits(MODELS["h = w * x + b"](), {
      state: { runs: 0, reached: [], flowed: [], freed: [], held: [], note: "Nothing yet." },
      constants: true,
      ...change,
    }),
  );
  page.remove = createView(host, channel);
  await nextFrame();
  const one = <E extends Element = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const node = (id: number) => one<SVGGElement>(`.gw-node[data-node="${id}"]`);
  const press = async (key: string, target: Element = one(".gw-canvas")) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    target.dispatchEvent(event);
    await nextFrame();
    return event;
  };
  const click = async (target: Element) => {
    target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    await nextFrame();
  };
  return { host, channel, one, node, press, click };
}

describe("the drawing", () => {
  it("shows every node and kind", async () => {
    const { host, node } = await view();
    expect(host.querySelectorAll(".gw-node")).toHaveLength(5);
    expect(node(0).textContent).toBe("h(1,)valuegradAddBackward0");
    expect(node(0).classList).toContain("gw-root");
    expect(host.querySelectorAll(".gw-leaf[data-node]")).toHaveLength(3);
    // The tooltip of an arrow names its argument.
    expect(host.querySelectorAll(".gw-edge-label")).toHaveLength(0);
  });

  it("selects by click and lets go on the ground", async () => {
    const { channel, node, one, click } = await view();
    await click(node(1).querySelector(".gw-box") as Element);
    expect(channel.get("selected")).toBe(1);
    expect(node(1).classList).toContain("is-selected");
    expect(one(".gw-panel").textContent).toContain("MulBackward0");
    await click(one(".gw-svg"));
    expect(channel.get("selected")).toBeNull();
  });

  it("follows a selection and a backward from Python", async () => {
    const { channel, node, one, press } = await view();
    channel.change("selected", 2);
    channel.change("state", {
      runs: 1,
      reached: [0, 1, 2, 3],
      flowed: [0, 1, 2],
      freed: [1],
      held: [],
      note: "Backward ran.",
    });
    await nextFrame();
    expect(node(2).classList).toContain("is-selected");
    expect(node(3).classList).toContain("is-reached");
    expect(node(4).classList).toContain("is-unreached");
    expect(node(1).classList).not.toContain("is-freed"); // all of its class are
    expect(one('[data-source="1"][data-target="3"]').classList).toContain("is-flowed");
    expect(one('[data-source="1"][data-target="4"]').classList).toContain("is-unreached");
    expect(one(".gw-bar-text").textContent).toContain("Backward ran.");
    await press("?");
    expect(one(".gw-legend").textContent).not.toContain("buffers freed");
  });

  it("shows hostile names as text", async () => {
    const { host } = await view({ model: MODELS["hostile names"]() });
    expect(host.querySelector("img, .gw-svg b, b b")).toBeNull();
    expect(host.querySelector(".gw-svg")?.textContent).toContain(EVIL.slice(0, 10));
  });

  it("changes direction from both sides", async () => {
    const { channel, one, node, press } = await view();
    await press("?");
    const select = one<HTMLSelectElement>(".gw-direction-choice");
    select.value = "right";
    select.dispatchEvent(new Event("change"));
    expect(channel.get("direction")).toBe("right");
    channel.change("direction", "up");
    await nextFrame();
    expect(select.value).toBe("up");
    expect(node(0)).not.toBeNull();
  });

  it("draws a leaf's copies and lights them up together", async () => {
    const { host, one } = await view({ model: MODELS["RNN, 40 steps"]() });
    const copy = one<SVGGElement>('.gw-copy[data-kind="leaf"]');
    copy.dispatchEvent(new MouseEvent("pointermove", { bubbles: true }));
    await nextFrame();
    const same = [...host.querySelectorAll(`.gw-node[data-node="${copy.dataset.node}"]`)];
    expect(same.length).toBeGreaterThan(1);
    for (const one of same) expect(one.classList).toContain("is-hovered");
  });
});

describe("the keyboard", () => {
  it("walks, selects, and leaves step by step", async () => {
    const { channel, one, node, press } = await view();
    one(".gw-canvas").focus();
    await nextFrame();
    expect(node(0).classList).toContain("is-focused");
    await press("ArrowDown");
    expect(node(1).classList).toContain("is-focused");
    expect(one("[aria-live=polite].gw-visually-hidden").textContent).toContain(
      "MulBackward0, operation",
    );
    await press("Enter");
    expect(channel.get("selected")).toBe(1);
    await press("Escape");
    expect(channel.get("selected")).toBeNull();
    expect(document.activeElement).toBe(one(".gw-canvas"));
    // A description that has appeared by now goes first.
    await vi.waitFor(async () => {
      await press("Escape");
      expect(document.activeElement).toBe(document.body);
    });
  });

  it("keeps every key from the page", async () => {
    const { press, one } = await view();
    const seen = vi.fn();
    document.addEventListener("keydown", seen);
    await press("a");
    await press("d", one(".gw-search-field"));
    document.removeEventListener("keydown", seen);
    expect(seen).not.toHaveBeenCalled();
    for (const part of document.querySelectorAll("button, input, select, summary, [tabindex]")) {
      expect(part.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
    }
  });

  it("finds, counts, cycles and clears", async () => {
    const { one, node, press } = await view();
    const all = (of: string) => [...document.querySelectorAll<HTMLElement>(of)];
    await press("/");
    const field = one<HTMLInputElement>(".gw-search-field");
    expect(document.activeElement).toBe(field);
    field.value = "backward";
    field.dispatchEvent(new Event("input"));
    await nextFrame();
    expect(one(".gw-search-count").textContent).toBe("2");
    expect(all("[role=option]").map(({ textContent }) => textContent)).toHaveLength(2);
    expect(all(".is-current-hit")).toEqual([]);
    expect(node(2).classList).toContain("is-dim");
    await press("Enter", field);
    expect(one(".gw-search-count").textContent).toBe("1 of 2");
    expect(field.getAttribute("aria-activedescendant")).toBe(all("[role=option]")[0].id);
    expect(node(0).classList).toContain("is-current-hit");
    all("[role=option]")[1].click();
    await nextFrame();
    expect(one(".gw-search-count").textContent).toBe("2 of 2");
    expect(node(1).classList).toContain("is-current-hit");
    await press("Escape", field);
    expect(field.value).toBe("");
    expect(one(".gw-search-list").hidden).toBe(true);
    expect(node(2).classList).not.toContain("is-dim");
    await press("Escape", field);
    expect(document.activeElement).toBe(one(".gw-canvas"));
  });

  it("moves the panel's edge", async () => {
    const { one, press } = await view();
    const handle = one(".gw-handle-x");
    const before = Number.parseFloat(one(".gw-panel").style.width);
    Object.defineProperty(one(".gw-panel"), "offsetWidth", { value: before });
    await press("ArrowLeft", handle);
    expect(Number.parseFloat(one(".gw-panel").style.width)).toBe(before + 24);
  });
});

describe("faults", () => {
  it("says what is wrong with a graph, and recovers", async () => {
    const { channel, one } = await view({
      model: { ...MODELS["h = w * x + b"](), nodes: [] },
    });
    expect(one(".gw-fault").textContent).toMatch(/./);
    channel.change("model", MODELS.LeNet());
    await nextFrame();
    expect(one(".gw-fault")).toBeNull();
    expect(one(".gw-counts").textContent).toBe("42 nodes");
    expect(one(".gw-counts").title).toBe("42 nodes, 41 edges");
  });

  it("shows a sentence from Python", async () => {
    const { channel, one } = await view({ _fault: "The recording failed." });
    expect(one(".gw-fault").textContent).toBe("The recording failed.");
    channel.change("_fault", null);
    expect(one(".gw-fault")).toBeNull();
  });
});

describe("taking it away", () => {
  it("leaves nothing behind", async () => {
    const targets = [window, document];
    const spies = targets.map((target) => ({
      added: vi.spyOn(target, "addEventListener"),
      removed: vi.spyOn(target, "removeEventListener"),
    }));
    const { host, channel, node, click } = await view();
    await click(node(1));
    expect(page.observers()).toBeGreaterThan(0);
    const on = vi.spyOn(channel, "on");
    page.remove();
    expect(host.childNodes).toHaveLength(0);
    expect(page.observers()).toBe(0);
    channel.change("selected", 3);
    channel.change("model", MODELS.LeNet());
    await nextFrame();
    expect(host.childNodes).toHaveLength(0);
    expect(on).not.toHaveBeenCalled();
    for (const { added, removed } of spies)
      expect(added.mock.calls.length).toBe(removed.mock.calls.length);
  });

  it("keeps two views of one model alike and apart", async () => {
    const { channel, host } = await view();
    const second = document.body.appendChild(document.createElement("div"));
    const removeSecond = createView(second, channel);
    channel.set("selected", 1);
    await nextFrame();
    expect(document.querySelectorAll('.gw-node[data-node="1"].is-selected')).toHaveLength(2);
    const ids = [...document.querySelectorAll("[id]")].map((part) => part.id);
    expect(new Set(ids).size).toBe(ids.length);
    removeSecond();
    channel.set("selected", 2);
    await nextFrame();
    expect(second.childNodes).toHaveLength(0);
    expect(host.querySelector('.gw-node[data-node="2"]')?.classList).toContain("is-selected");
  });
});

describe("several ranks", () => {
  const ranked = () => withRanks(MODELS["h = w * x + b"](), [1, 2, 4]);
  const choice = (host: Element) => host.querySelector<HTMLSelectElement>(".gw-rank-choice select");

  it("can be chosen from where Python can show another, by keyboard and with a name", async () => {
    const { host, channel, one } = await view({ model: ranked(), rank: 0, _ranks: [0, 1, 2] });
    const select = choice(host) as HTMLSelectElement;
    expect(select.getAttribute("aria-label")).toBe("Rank whose graph and numbers are shown");
    expect([...select.options].map(({ value }) => value)).toEqual(["0", "1", "2"]);
    expect(one(".gw-rank-choice").hidden).toBe(false);
    select.value = "2";
    select.dispatchEvent(new Event("change"));
    expect(channel.get("rank")).toBe(2);
    channel.change("rank", 1);
    expect(select.value).toBe("1");
  });

  it("have nodes that are not drawn: told beside the choice, and shown at a click", async () => {
    const graph = ranked();
    const elsewhere = [{ rank: 2, ranks: "ranks 2 and 5", count: 3, names: [EVIL] }];
    const here = { ...graph, ranks: graph.ranks && { ...graph.ranks, elsewhere } };
    const { channel, one, click } = await view({ model: here, rank: 0, _ranks: [0, 1, 2] });
    expect(one(".gw-rank-more").textContent).toBe("+3 nodes on ranks 2 and 5");
    expect(one(".gw-rank-more").title).toContain(EVIL);
    await click(one(".gw-rank-more"));
    expect(channel.get("rank")).toBe(2);
  });

  it("have what others have marked and not counted, lines too", async () => {
    const { ranks, ...graph } = ranked();
    const nodes = (ranks?.nodes ?? []).map((strip) => ({
      ...strip,
      ...(strip.node === 2 && { only: "only on rank 1", here: false }),
    }));
    const edges = graph.edges.flatMap(({ target }, edge) =>
      target === 2 ? [{ edge, here: false }] : [],
    );
    const given = { ...graph, ranks: ranks && { ...ranks, nodes, edges } };
    const { host, one } = await view({ model: given, rank: 0, _ranks: [0, 1, 2] });
    expect(host.querySelectorAll(".gw-only-edge")).toHaveLength(edges.length);
    expect(one('.gw-node[data-node="2"] .gw-only-tag').textContent).toBe("only on rank 1");
    const count = nodes.length - 1;
    expect(host.textContent).toContain(`${count} nodes and 1 on other ranks`);
    expect(one("[aria-label^='Autograd graph of']").ariaLabel).toContain(`of ${count} nodes`);
  });

  it("are announced when nothing can be done", async () => {
    const { host, one } = await view({ model: ranked(), rank: 1, _ranks: [] });
    expect(one(".gw-rank-choice").hidden).toBe(true);
    expect(one(".gw-rank-words").textContent).toBe("rank 1 of 3");
    expect(choice(host)?.disabled).toBe(false);
  });

  it("leave no trace where there are none", async () => {
    const { one } = await view();
    expect(one(".gw-rank-choice").closest<HTMLElement>("[hidden]")).not.toBeNull();
  });

  it("move nothing where only numbers are others", async () => {
    const { host, channel } = await view({ model: ranked(), rank: 0, _ranks: [0, 1, 2] });
    const places = () =>
      [...host.querySelectorAll(".gw-node")].map((node) => node.getAttribute("transform"));
    const before = places();
    channel.change(
      "_values",
      ranked().nodes.map(() => null),
    );
    channel.change("rank", 2);
    channel.change("_update", {
      ...{ number: 1, before: null, words: "the same graph as on rank 0", changes: [] },
    });
    await nextFrame();
    expect(places()).toEqual(before);
    expect(host.querySelector(".gw-bar-text")?.textContent).toContain("rank 2");
    const [first] = host.querySelectorAll(".gw-node");
    const triangle = first.querySelector(".gw-rank-shown")?.getAttribute("d");
    channel.change("rank", 0);
    await nextFrame();
    expect(first.querySelector(".gw-rank-shown")?.getAttribute("d")).not.toBe(triangle);
  });
});
