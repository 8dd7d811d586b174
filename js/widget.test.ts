// @vitest-environment jsdom

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { channelOf, GONE, type Traits } from "./channel";
import comparison from "./comparison";
import { MODELS } from "./demo/models";
import { element } from "./dom/element";
import { fakeBrowser, nextFrame } from "./testing/browser";
import widget from "./widget";
import type { CompareTraits } from "./wire";

/** An anywidget model, as far as the widget uses one. */
function fakeModel(traits: Partial<Traits>) {
  const values: Record<string, unknown> = {
    details: null,
    state: null,
    _fault: null,
    selected: null,
    direction: "down",
    ...traits,
  };
  const listeners: [string, () => void][] = [];
  const saved: string[] = [];
  const model = {
    get: (name: string) => values[name],
    set(name: string, value: unknown) {
      values[name] = value;
      for (const [event, call] of [...listeners]) if (event === `change:${name}`) call();
    },
    on: (event: string, call: () => void) => listeners.push([event, call]),
    off(event: string, call: () => void) {
      const at = listeners.findIndex(([name, known]) => name === event && known === call);
      if (at >= 0) listeners.splice(at, 1);
    },
    send: (message: unknown) => saved.push(JSON.stringify(message)),
    save_changes: () => saved.push(JSON.stringify([values.selected, values.direction])),
  };
  const tell = (given: string, view: unknown) => {
    for (const [event, call] of [...listeners]) if (event === given) call.call(view);
  };
  return { model: model as never, set: model.set, tell, listeners, saved };
}

beforeEach(() => {
  fakeBrowser();
});

afterEach(() => {
  vi.unstubAllGlobals();
});

describe("channelOf", () => {
  it("sends changes once and only changes", () => {
    const { model, saved } = fakeModel({});
    const channel = channelOf(model);
    channel.set("selected", 3);
    channel.set("selected", 3);
    expect(saved).toEqual(['[3,"down"]']);
  });

  it("sends messages to Python", () => {
    const { model, saved } = fakeModel({});
    channelOf(model).send({ kind: "start", cursor: null });
    expect(saved).toEqual(['{"kind":"start","cursor":null}']);
  });

  it("stops listening", () => {
    const { model, set, listeners } = fakeModel({});
    const heard = vi.fn();
    const stop = channelOf(model).on("state", heard);
    set("state", {});
    stop();
    set("state", {});
    expect(heard).toHaveBeenCalledTimes(1);
    expect(listeners).toHaveLength(0);
  });

  it("knows that the kernel has gone, and says that nothing moves .grad", () => {
    const transport = { owned: true, note: null, blocked: null };
    const { model, tell, listeners } = fakeModel({ transport });
    const channel = channelOf(model, element("div", {}));
    const heard = vi.fn();
    const stop = channel.on("transport", heard);
    expect(channel.get("transport")).toEqual(transport);
    tell("comm_live_update", { model: { comm_live: false } }); // as Jupyter does when a kernel restarts
    expect(heard).toHaveBeenCalledTimes(1);
    expect(channel.get("transport")).toEqual({ owned: false, note: null, blocked: GONE });
    tell("comm_live_update", { model: { comm_live: true } }); // and when it has found the kernel again
    expect(channel.get("transport")).toEqual(transport);
    stop();
    expect(listeners).toHaveLength(0);
  });

  it("says so of every graph that is compared", () => {
    const passes = [1, 2].map(() => ({ transport: { owned: true, note: null, blocked: null } }));
    const { model } = fakeModel({ passes } as never);
    const gone = element("div", "jupyter-widgets-disconnected");
    const found = channelOf<CompareTraits>(model, gone).get("passes");
    expect(found.map((pass) => pass.transport.owned)).toEqual([false, false]);
    expect(found.map((pass) => pass.transport.blocked)).toEqual([GONE, GONE]);
  });
});

describe("render", () => {
  const render = (traits: Partial<Traits>, signal: AbortSignal) => {
    const el = document.createElement("div");
    document.body.replaceChildren(el);
    const fake = fakeModel(traits);
    const end = widget.render({ model: fake.model, el, signal } as never);
    return { el, end, ...fake };
  };

  it("is in the page when VS Code detaches it, and leaves nothing there", async () => {
    const ending = new AbortController();
    const { el } = render({}, ending.signal);
    const around = element("div", { class: "cell-output-ipywidget-background" }, el);
    const output = element("div", {}, around); // which the cell that ran again has lost
    let isInPage = false;
    ending.signal.addEventListener("abort", () => {
      isInPage = el.isConnected;
    });
    ending.abort();
    expect(isInPage).toBe(true);
    await new Promise((done) => setTimeout(done));
    expect(output.isConnected).toBe(false);
    expect(document.body.childElementCount).toBe(0);
  });

  it("draws, and ends by its clean-up or by the signal, once", async () => {
    const control = new AbortController();
    const { el, end, listeners } = render({ model: MODELS["h = w * x + b"]() }, control.signal);
    await nextFrame();
    expect(el.querySelectorAll(".gw-node")).toHaveLength(5);
    control.abort();
    expect(el.childNodes).toHaveLength(0);
    expect(listeners).toHaveLength(0);
    end();
  });

  it.each([
    ["widget", widget],
    ["comparison", comparison],
  ])("draws an error of the %s instead of throwing", (_, { render }) => {
    vi.stubGlobal("ResizeObserver", undefined);
    const el = document.createElement("div");
    const { model } = fakeModel({ model: MODELS.LeNet() });
    render({ model, el, signal: new AbortController().signal } as never);
    expect(el.querySelector(".gw-fault")?.textContent).toBeTruthy();
  });
});
