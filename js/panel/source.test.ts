// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { detailsOf, summary } from "../testing/details";
import { MODELS } from "../testing/graphs";
import type { DetailsModel, GraphModel } from "../wire";
import { Panel } from "./panel";

const EVIL = "<img src=x onerror=alert(1)>";

function shown(graph: GraphModel, label: string, change: Partial<DetailsModel> = {}) {
  const went: number[] = [];
  const panel = new Panel({ goTo: (id) => went.push(id), goToModule: () => {}, close: () => {} });
  document.body.replaceChildren(panel.element);
  const id = graph.nodes.findIndex((node) => node.label === label);
  panel.update(graph, id, detailsOf(graph, id, change));
  const section = (name: string) =>
    panel.element.querySelector<HTMLElement>(`[data-section="${name}"]`);
  return { panel: panel.element, section, went, text: panel.element.textContent ?? "" };
}

const cut = () => MODELS["w * x.detach() + c * x + b"]();
const line = { file: "/home/ada/net/model.py", line: 12, text: "h = w * x", function: "forward" };

describe("what was watched, in the panel", () => {
  it("shows the line of an operation, what was called and in which module", () => {
    const { panel, text, section } = shown(cut(), "MulBackward0", {
      source: line,
      call: "torch.mul",
      inplace: true,
      module: "encoder.layers.0",
    });
    expect(section("source")?.textContent).toContain("net/model.py:12");
    expect(section("source")?.textContent).toContain("h = w * x");
    expect(section("source")?.textContent).toContain("torch.mul");
    expect(section("source")?.textContent).toContain("in place");
    expect(panel.querySelector(".gw-source-line")?.getAttribute("title")).toBe(
      "/home/ada/net/model.py:12 in forward",
    );
    expect(text).toContain("in encoder.layers.0");
  });

  it("shows nothing of it where nothing was watched", () => {
    const { section, panel } = shown(MODELS["h = w * x + b"](), "MulBackward0");
    expect(section("source")).toBeNull();
    expect(panel.querySelector(".gw-module")).toBeNull();
  });

  it("lists a constant among the inputs, once, and leads to it", () => {
    const graph = cut();
    const { section, went } = shown(graph, "MulBackward0");
    const rows = [...(section("inputs")?.querySelectorAll("li") ?? [])];
    expect(rows).toHaveLength(2);
    expect(rows[1].textContent).toContain("x.detach()");
    rows[1].querySelector("button")?.click();
    expect(went).toEqual([graph.nodes.findIndex(({ kind }) => kind === "cut")]);
  });

  it("explains a cut: how, where, and a way to its source", () => {
    const graph = cut();
    const x = graph.nodes.findIndex(({ name }) => name === "x");
    const { section, went, text } = shown(graph, "x.detach()", {
      about: "No gradient flows here: detach() took it out of the graph.",
      source: line,
      cuts: [{ how: "detach", node: x, label: "x", line, region: null }],
    });
    expect(text).toContain("No gradient flows here");
    expect(section("cuts")?.textContent).toContain("net/model.py:12");
    expect(section("cuts")?.textContent).toContain("h = w * x");
    expect(section("source"), "the same line is not shown twice").toBeNull();
    section("cuts")?.querySelector("button")?.click();
    expect(went).toEqual([x]);
    for (const name of ["grad", "grad_output", "grad_input", "saved"])
      expect(section(name), name).toBeNull();
  });

  it("shows where gradients had been switched off", () => {
    const { section } = shown(cut(), "x.detach()", {
      cuts: [{ how: "no_grad", node: 0, label: "h", line, region: { ...line, line: 9 } }],
    });
    expect(section("cuts")?.textContent).toContain("net/model.py:9");
  });

  it("says that something is inferred", () => {
    const { text } = shown(MODELS["a detached alias"](), "2");
    expect(text).toContain("constant");
    expect(text).toContain("inferred");
  });

  it("writes user text as text", () => {
    const { panel, text } = shown(cut(), "MulBackward0", {
      source: { file: EVIL, line: 1, text: EVIL, function: EVIL },
      call: EVIL,
      module: EVIL,
    });
    expect(panel.querySelector("img")).toBeNull();
    expect(text).toContain(EVIL);
  });

  it("explains why a leaf has no gradient, and why it is zero", () => {
    const explained = "w is cut off.";
    expect(shown(cut(), "w", { explained }).section("why")?.textContent).toContain(explained);
    const zero = summary({ values: [0, 0], min: 0, max: 0, mean: 0, norm: 0, zeros: 2 });
    const about = (grad: typeof zero) =>
      shown(cut(), "w", { explained, grad }).section("why")?.textContent ?? "";
    expect(about(zero)).toContain(explained);
    expect(about({ ...zero, zeros: 1 })).not.toContain(explained);
  });
});
