// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { localChannel } from "./channel";
import { nextFrame, testPage } from "./testing/browser";
import { MODELS } from "./testing/graphs";
import { createView } from "./view";
import type { GraphModel } from "./wire";

const page = testPage();

async function view(graph: GraphModel, constants: boolean) {
  const host = document.body.appendChild(document.createElement("div"));
  const channel = localChannel({
    model: graph,
    details: null,
    state: { runs: 0, reached: [], flowed: [], freed: [], held: [], note: "" },
    _fault: null,
    selected: null as number | null,
    direction: "down" as const,
    constants,
    cursor: 0,
    _steps: [],
    run: null,
    transport: { owned: false, note: null, blocked: null },
  });
  page.remove = createView(host, channel as never);
  await nextFrame();
  const kinds = () =>
    [...host.querySelectorAll<SVGGElement>(".gw-node")].map((node) => node.dataset.kind);
  const control = host.querySelector('[aria-label="Constants and cuts"]') as HTMLElement;
  return { channel, host, kinds, control };
}

/** Open the legend; it is written while visible. */
function openLegend(host: HTMLElement) {
  host.querySelector<HTMLElement>('[aria-label="Legend and keys"]')?.click();
}

const cut = MODELS["w * x.detach() + c * x + b"];

describe("the control that hides constants and cuts", () => {
  it("hides and shows them, and tells Python", async () => {
    const { channel, host, kinds, control } = await view(cut(), true);
    openLegend(host);
    expect(host.querySelector(".gw-legend")?.textContent).toContain("cut");
    expect(kinds()).toContain("cut");
    expect(host.querySelector(".gw-stub")).toBeNull();
    expect(control.getAttribute("aria-pressed")).toBe("true");
    control.click();
    await nextFrame();
    expect(channel.get("constants")).toBe(false);
    expect(kinds().every((kind) => kind === "op" || kind === "leaf")).toBe(true);
    expect(host.querySelector(".gw-stub"), "stubs stand for them then").not.toBeNull();
    expect(host.querySelector(".gw-legend")?.textContent).not.toContain("cut");
  });

  it("follows Python", async () => {
    const { channel, host, kinds, control } = await view(cut(), false);
    openLegend(host);
    expect(kinds()).not.toContain("constant");
    channel.change("constants", true);
    await nextFrame();
    expect(kinds()).toContain("constant");
    expect(control.getAttribute("aria-pressed")).toBe("true");
    expect(host.querySelector(".gw-legend")?.textContent).toContain("no gradient flows here");
  });

  it("counts autograd's nodes only", async () => {
    const graph = cut();
    const own = graph.nodes.filter(({ kind }) => kind === "op" || kind === "leaf").length;
    const { host } = await view(graph, true);
    expect(host.querySelector(".gw-counts")?.textContent).toContain(`${own} nodes`);
  });

  it("is not there where there is nothing to hide", async () => {
    const { control } = await view(MODELS["h = w * x + b"](), true);
    expect(control.hidden).toBe(true);
  });
});
