// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import { localChannel, type Traits } from "../channel";
import { Builder } from "../demo/build_graph";
import { fakeBrowser, nextFrame, testPage } from "../testing/browser";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { freshTraits } from "../testing/traits";
import { createView } from "../view";

const page = testPage();

const SMALL = MODELS["(x + 1 - 2 * x) ** 2"]();

function view(change: Partial<Traits> = {}, graph = SMALL) {
  const channel = localChannel(freshTraits(graph, change));
  const host = document.body.appendChild(document.createElement("div"));
  page.remove = createView(host, channel);
  const one = <E extends Element = HTMLElement>(selector: string) =>
    host.querySelector<E>(selector) as E;
  const press = (key: string) =>
    one(".gw-canvas").dispatchEvent(
      new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
    );
  return { channel, host, one, press, panel: () => one(".gw-panel") };
}

describe("at rest", () => {
  it("shows one row of tools, the picture, the bar and the size of the drawing", () => {
    const { one, panel } = view();
    expect(one(".gw-crumb").textContent).toBe("loss");
    expect(one(".gw-counts").textContent).toBe("5 nodes");
    expect(panel().hidden).toBe(true);
    expect(one(".gw-state-key")).toBeNull();
    expect(one(".gw-search").classList).not.toContain("is-open");
    expect(one(".gw-view-bar").hidden).toBe(true);
    expect(one(".gw-colours").hidden).toBe(true);
  });

  it("the search is open where there are many nodes", () => {
    const { one } = view({}, MODELS.LeNet());
    expect(one(".gw-search").classList).toContain("is-open");
  });

  it("a finished pass leaves the panel closed", () => {
    const { steps, run } = fakeRun(SMALL, "fine");
    expect(view({ _steps: steps, run, cursor: steps.length }).panel().hidden).toBe(true);
  });
});

describe("the panel", () => {
  const { steps, run } = fakeRun(SMALL, "fine");

  it("follows the running node, and closes at the end", async () => {
    const { channel, one, panel } = view({ _steps: steps, run, cursor: 0 });
    for (const { node } of steps.slice(0, -1)) {
      one<HTMLElement>('[aria-label="One step"]').click();
      await nextFrame();
      expect(panel().hidden).toBe(false);
      const { name, op } = SMALL.nodes[node];
      expect(one(".gw-panel .gw-title").textContent).toBe(name ?? op);
      expect(one(".gw-state-key")).not.toBeNull();
    }
    one<HTMLElement>('[aria-label="One step"]').click();
    await nextFrame();
    expect(channel.get("selected")).toBeNull();
    expect(panel().hidden).toBe(true);
    expect(one(".gw-state-key")).toBeNull();
  });

  it("leaves a small widget to the picture until somebody asks", async () => {
    fakeBrowser(760);
    const { channel, one, panel } = view({ _steps: steps, run, cursor: 1 });
    await nextFrame();
    expect(one(".gw-state-key")).not.toBeNull();
    expect(panel().hidden).toBe(true);
    channel.set("selected", 0);
    expect(panel().hidden).toBe(false);
  });

  it("stays closed in this widget and the next once it was closed, until a node is selected", async () => {
    const first = view({ _steps: steps, run, cursor: 1 });
    first.one<HTMLElement>(".gw-panel-close").click();
    expect(first.panel().hidden).toBe(true);
    const second = view({ _steps: steps, run, cursor: 2 });
    expect(second.panel().hidden).toBe(true);
    second.channel.set("selected", 0);
    expect(second.panel().hidden).toBe(false);
  });

  it("shows legend and keys behind ?, until ? or Escape, in this widget alone", () => {
    const first = view();
    first.press("?");
    expect(first.one(".gw-help").textContent).toContain("walk along edges");
    expect(first.panel().hidden).toBe(false);
    expect(view().panel().hidden).toBe(true);
    first.press("Escape");
    expect(first.panel().hidden).toBe(true);
    first.press("?");
    first.press("?");
    expect(first.panel().hidden).toBe(true);
  });
});

it("the key of states is above the picture, the same element at every step", async () => {
  const { steps, run } = fakeRun(SMALL, "fine");
  const { one } = view({ _steps: steps, run, cursor: 1 });
  await nextFrame();
  const key = one(".gw-key-strip .gw-state-key");
  expect(key).not.toBeNull();
  expect(one(".gw-key-strip + .gw-body")).not.toBeNull();
  one<HTMLElement>('[aria-label="One step"]').click();
  await nextFrame();
  expect(one(".gw-state-key")).toBe(key);
});

it("a direction chosen in one widget holds for those that follow, unless Python said another", () => {
  const { one, press, channel } = view({ direction: "auto" });
  press("?");
  const select = one<HTMLSelectElement>(".gw-direction-choice");
  select.value = "up";
  select.dispatchEvent(new Event("change"));
  expect(channel.get("direction")).toBe("up");
  const chosen = (direction: Traits["direction"]) => {
    const later = view({ direction });
    later.press("?");
    return later.one<HTMLSelectElement>(".gw-direction-choice").value;
  };
  expect(chosen("auto")).toBe("up");
  expect(chosen("right")).toBe("right");
});

it("torch's names chosen in one widget hold for those that follow, and for all nodes", () => {
  const signs = ({ host }: ReturnType<typeof view>) =>
    [...host.querySelectorAll(".gw-op .gw-text-sign, .gw-op .gw-text-title")].map(
      (text) => text.textContent ?? "",
    );
  const graph = {
    ...SMALL,
    nodes: SMALL.nodes.map((node) => ({ ...node, sign: node.kind === "op" ? "⊙" : null })),
  };
  const first = view({}, graph);
  expect(signs(first)).toContain("⊙");
  first.one<HTMLElement>(`[aria-label="Torch's names"]`).click();
  const ops = graph.nodes.filter(({ kind }) => kind === "op").map(({ op }) => op);
  for (const shown of [first, view({}, graph)]) {
    expect(signs(shown)).not.toContain("⊙");
    for (const op of ops) expect(shown.host.textContent).toContain(op.slice(0, 3));
  }
});

it("colours chosen in one widget hold for those that follow, once they are known", () => {
  const graph = MODELS.LeNet();
  const { steps, run } = fakeRun(graph, "fine");
  for (const node of graph.nodes) if (node.kind === "op") node.namespace ??= "net/a";
  const chosen = ({ one }: ReturnType<typeof view>) =>
    one<HTMLSelectElement>(".gw-colour-by").value;
  const first = view({ _steps: steps, run }, graph);
  const select = first.one<HTMLSelectElement>(".gw-colour-by");
  select.value = "gradient";
  select.dispatchEvent(new Event("change"));
  const second = view({}, graph);
  expect([chosen(first), chosen(second)]).toEqual(["gradient", "none"]);
  second.channel.change("run", run);
  second.channel.change("_steps", steps);
  expect(chosen(second)).toBe("gradient");
});

it("fills the window without full screen, and Escape goes back", () => {
  const { one, host, press } = view();
  const root = host.querySelector(".gradwalk") as HTMLElement;
  root.requestFullscreen = () => ({ catch: (no: () => void) => no() }) as never;
  one<HTMLElement>('[aria-label="Full screen"]').click();
  expect(root.classList).toContain("is-full");
  press("Escape");
  expect(root.classList).not.toContain("is-full");
});

it("plays at the chosen speed, and a large picture module by module", () => {
  vi.useFakeTimers();
  const g = new Builder();
  let x = g.op("SinBackward0", [4], { self: g.leaf("x", [4]) });
  for (let i = 0; i < 70; i++) {
    g.namespace = i < 35 ? "net/a" : "net/b";
    x = g.op("TanhBackward0", [4], { self: x });
  }
  g.namespace = "";
  const graph = g.graph([g.op("SumBackward0", [], { self: x }, "loss"), "loss"]);
  const { steps, run } = fakeRun(graph, "fine");
  const { one } = view({ _steps: steps, run, cursor: 0 }, graph);
  const speed = one<HTMLSelectElement>(".gw-speed");
  speed.value = "4";
  speed.dispatchEvent(new Event("change"));
  one<HTMLElement>('[aria-label="Play"]').click();
  // The loss, two modules and the input: four or five stops of 175 ms.
  vi.advanceTimersByTime(1000);
  expect(one(".gw-bar-text").textContent).toContain("backward done");
});
