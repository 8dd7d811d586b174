// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import { localChannel, type Message, type Traits } from "../channel";
import { nextFrame, testPage } from "../testing/browser";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { createView } from "../view";

const EVIL = "<img src=x onerror=alert(1)>";
const graph = MODELS["(x + 1 - 2 * x) ** 2"]();
const { steps, run } = fakeRun(graph, "fine");
const FREE = { owned: true, note: null, blocked: null };
const page = testPage();

function shown(change: Partial<Traits> = {}, views = 1) {
  const sent: Message[] = [];
  const channel = localChannel(
    {
      model: graph,
      details: null,
      state: { runs: 0, reached: [], flowed: [], freed: [], held: [], note: "" },
      _fault: null,
      selected: null,
      direction: "down",
      cursor: 0,
      _steps: [],
      run: null,
      transport: FREE,
      ...change,
    },
    (message) => sent.push(message),
  );
  const hosts = Array.from({ length: views }, () => {
    const host = document.body.appendChild(document.createElement("div"));
    page.remove = createView(host, channel);
    return host;
  });
  const inView = (host: HTMLElement) => {
    const one = <E extends Element = HTMLElement>(selector: string) =>
      host.querySelector<E>(selector) as E;
    return {
      one,
      button: (label: string) => one<HTMLButtonElement>(`.gw-bar [aria-label="${label}"]`),
      slider: () => one<HTMLInputElement>('.gw-bar [aria-label="Step"]'),
      text: () => (one(".gw-bar-text").textContent ?? "").replace(/\s+/g, " ").trim(),
      node: (id: number) => one<SVGGElement>(`.gw-node[data-node="${id}"]`),
      press(key: string, target: Element) {
        const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
        target.dispatchEvent(event);
        return event.defaultPrevented;
      },
      drag(value: number) {
        const slider = one<HTMLInputElement>(".gw-slider");
        slider.value = String(value);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
      },
    };
  };
  return { channel, sent, inView, ...inView(hosts[0]), hosts };
}

describe("the bar without a run", () => {
  it("invites, and starts one once", () => {
    const { button, text, sent, slider, press } = shown();
    expect(text()).toBe(
      "No backward yet: press One step (›) to run it and stop after the first step.",
    );
    expect(slider().hidden).toBe(true);
    for (const label of ["To the start", "One step back", "Play"])
      expect(button(label).disabled).toBe(true);
    button("One step").click();
    button("One step").click();
    button("To the end").click();
    press("ArrowRight", slider());
    expect(sent).toEqual([{ kind: "start", cursor: 1 }]);
    expect(text()).toBe("Running backward… Interrupt the kernel to stop it.");
  });

  it("starts to the end, and by keys", () => {
    const { button, sent, channel, press } = shown();
    button("To the end").click();
    channel.change("_fault", "Backward failed.");
    press("ArrowRight", button("One step"));
    channel.change("_fault", null);
    press("End", button("One step"));
    press("ArrowLeft", button("One step"));
    const start = (cursor: number | null) => ({ kind: "start", cursor });
    expect(sent).toEqual([start(null), start(1), start(null)]);
  });

  it("keeps the keyboard where it is while one starts", () => {
    const { button, channel, press, text } = shown();
    button("One step").focus();
    press("ArrowRight", button("One step"));
    expect(document.activeElement).toBe(button("One step"));
    channel.change("_steps", steps);
    channel.change("cursor", 1);
    expect(document.activeElement).toBe(button("One step"));
    press("ArrowRight", document.activeElement as Element);
    expect(text()).toContain("step 2 of 5");
  });

  it("can be asked again when Python does not answer", () => {
    vi.useFakeTimers();
    const { button, sent } = shown();
    button("One step").click();
    vi.advanceTimersByTime(11_000);
    button("One step").click();
    expect(sent).toHaveLength(2);
  });

  it("says why none can be started", () => {
    const { button, text, sent, press, slider } = shown({
      transport: { owned: false, note: null, blocked: `${EVIL} is not a scalar.` },
    });
    for (const label of ["One step", "To the end"]) expect(button(label).disabled).toBe(true);
    expect(text()).toBe(`${EVIL} is not a scalar.`);
    press("ArrowRight", slider());
    expect(sent).toEqual([]);
  });
});

describe("the bar with a run", () => {
  const ran = { _steps: steps, run, cursor: 2 };

  it("moves by buttons and keys, and stops at both ends", async () => {
    const { channel, button, text, press, slider } = shown(ran);
    expect(text()).toBe(
      "step 2 of 5 SubBackward0 passes \u22124 on to AddBackward0 y1, and 4 on to MulBackward0 y2",
    );
    button("One step").click();
    await nextFrame();
    expect(channel.get("cursor")).toBe(3);
    button("To the end").click();
    expect(text()).toBe("backward done · 5 steps x.grad None → 4");
    expect(button("One step").disabled).toBe(true);
    expect(press("ArrowRight", slider())).toBe(true);
    expect(press("Home", slider())).toBe(true);
    expect(slider().getAttribute("aria-valuetext")).toBe(
      "before step 1 of 5: press › to run PowBackward0",
    );
    expect(button("One step back").disabled).toBe(true);
    press("ArrowRight", button("One step"));
    press("ArrowRight", button("One step"));
    press("ArrowLeft", button("One step"));
    press("End", button("One step"));
    press("ArrowLeft", slider());
    await nextFrame();
    expect(channel.get("cursor")).toBe(4);
    expect(press("ArrowUp", button("One step"))).toBe(false);
  });

  it("keeps the keyboard when a button is used up", () => {
    const { button } = shown({ ...ran, cursor: 4 });
    button("One step").focus();
    button("One step").click();
    expect(button("One step").disabled).toBe(true);
    expect(document.activeElement?.closest(".gw-bar")).not.toBeNull();
  });

  it("shows a drag at once and tells Python once per frame", async () => {
    const { channel, drag, node, text } = shown(ran);
    await nextFrame();
    const set = vi.spyOn(channel, "set");
    for (const value of [0, 1, 3, 4]) drag(value);
    expect(text()).toContain("step 4 of 5 AddBackward0 y1 passes \u22124 to x");
    expect(set).not.toHaveBeenCalled();
    await nextFrame();
    expect(set.mock.calls).toEqual([["cursor", 4]]);
    expect(node(2).classList).toContain("is-running");
    expect(node(3).classList).toContain("is-done");
    expect(node(4).classList).toContain("is-ready");
  });

  it("draws the state, what flowed and what grew at the cursor", async () => {
    const { channel, node, one, hosts } = shown({ ...ran, selected: 4 });
    await nextFrame();
    const labels = () =>
      [...hosts[0].querySelectorAll(".gw-gradient")].map((label) => label.textContent);
    expect(node(1).classList).toContain("is-running");
    expect(node(4).classList).toContain("is-waiting");
    expect(one('[data-source="1"][data-target="2"]').classList).toContain("is-passing");
    expect(one('[data-source="2"][data-target="4"]').classList).not.toContain("is-flowed");
    expect(labels()).not.toContain("8");
    expect(one('[data-section="state"]').textContent).toBe(
      "waiting for gradients: it runs in step 5 of 5",
    );
    channel.change("cursor", 5);
    await nextFrame();
    expect(one('[data-source="2"][data-target="4"]').classList).toContain("is-flowed");
    expect(labels()).toEqual(expect.arrayContaining(["1", "\u22124", ".grad4"]));
    expect(one('[data-section="state"]').textContent).toBe("done: it ran in step 5 of 5");
    channel.change("_steps", []);
    channel.change("run", null);
    await nextFrame();
    expect(labels()).toEqual([]);
    expect(node(4).getAttribute("class")).not.toMatch(/is-(running|done|ready|waiting)/);
    expect(one('[data-section="state"]')).toBeNull();
  });

  it("plays to the end, pauses, and plays again from the start", () => {
    vi.useFakeTimers();
    const { button, text } = shown({ ...ran, cursor: 3 });
    button("Play").click();
    vi.advanceTimersByTime(750);
    expect(text()).toContain("step 4");
    button("Pause").click();
    vi.advanceTimersByTime(5000);
    expect(text()).toContain("step 4");
    button("Play").click();
    vi.advanceTimersByTime(5000);
    expect(text()).toContain("backward done");
    expect(button("Pause")).toBeNull();
    button("Play").click();
    expect(text()).toContain("before step 1");
    vi.advanceTimersByTime(1500);
    expect(text()).toContain("step 2");
  });

  it("pauses when the steps change or someone else moves", () => {
    vi.useFakeTimers();
    const { channel, button, text } = shown({ ...ran, cursor: 1 });
    button("Play").click();
    channel.change("_steps", steps.slice(0, 3));
    expect(button("Play").disabled).toBe(false);
    vi.advanceTimersByTime(3000);
    expect(text()).toContain("step 1 of 3");
    button("Play").click();
    channel.change("cursor", 2);
    vi.advanceTimersByTime(3000);
    expect(text()).toContain("step 2 of 3");
    channel.change("_steps", []);
    channel.change("run", null);
    expect(text()).toContain("No backward yet");
  });

  it("keeps two views of one model alike", async () => {
    const { hosts, inView } = shown(ran, 2);
    const [a, b] = hosts.map(inView);
    a.button("One step").click();
    await nextFrame();
    expect(b.text()).toBe(a.text());
    b.drag(4);
    await nextFrame();
    await nextFrame();
    expect(a.text()).toContain("step 4 of 5");
    expect(a.node(2).classList).toContain("is-running");
    expect(b.node(2).classList).toContain("is-running");
  });

  it("says whose .grad it is, what went wrong and where", async () => {
    const marked = fakeRun(graph, "stops");
    marked.run.marks[0].note = `Stopped in ${EVIL}.`;
    const { channel, one, button, node } = shown({
      _steps: marked.steps,
      run: marked.run,
      cursor: 3,
      transport: { owned: false, note: `Watched: ${EVIL}.`, blocked: null },
    });
    await nextFrame();
    expect(one(".gw-bar-owner").textContent).toBe("recorded");
    expect(one(".gw-bar-owner").title).toBe(`Watched: ${EVIL}.`);
    expect(one(".gw-bar-notes").textContent).toBe(`Stopped in ${EVIL}.show`);
    expect(one(".gw-bar img")).toBeNull();
    expect(one(".gw-beacons .gw-mark-error")).not.toBeNull();
    expect(one(".gw-bar-text").textContent).toContain("backward stopped here");
    const { node: id } = marked.run.marks[0];
    one<HTMLButtonElement>(".gw-bar-note button").click();
    expect(channel.get("selected")).toBe(id);
    expect(node(id).classList).toContain("is-unreached");
    channel.change("transport", FREE);
    expect(one(".gw-bar-owner").hidden).toBe(true);
    expect(button("Play")).not.toBeNull();
  });

  it("shows names and operations as text", () => {
    const { one } = shown({
      ...ran,
      model: { ...graph, nodes: graph.nodes.map((node) => ({ ...node, sign: EVIL, name: null })) },
      _steps: steps.map((step) => ({ ...step, op: EVIL, name: EVIL })),
    });
    expect(one(".gw-bar-text").textContent).toContain(EVIL);
    expect(one(".gw-bar img")).toBeNull();
  });

  it("marks everything that takes the keyboard for Jupyter", () => {
    const { hosts } = shown({ ...ran, run: fakeRun(graph, "nan").run });
    const focusable = hosts[0].querySelectorAll(".gw-bar :is(button, input)");
    expect(focusable.length).toBeGreaterThan(6);
    for (const one of focusable)
      expect(one.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
  });
});
