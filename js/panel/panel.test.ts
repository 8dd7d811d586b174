// @vitest-environment jsdom
import { afterEach, describe, expect, it, vi } from "vitest";
import { detailsOf, summary } from "../testing/details";
import { MODELS } from "../testing/graphs";
import type { DetailsModel, TensorSummary } from "../wire";
import { pythonText } from "./facts";
import { Panel } from "./panel";
import { slices, tensorView } from "./tensor";

const EVIL = "<img src=x onerror=alert(1)>";
const graph = MODELS["h = w * x + b"]();

function mounted() {
  const went: number[] = [];
  const panel = new Panel({ goTo: (id) => went.push(id), goToModule: () => {}, close: () => {} });
  document.body.replaceChildren(panel.element);
  return { panel, went, text: () => panel.element.textContent ?? "" };
}

afterEach(() => {
  vi.useRealTimers();
});

describe("Panel", () => {
  it("sums the graph up while nothing is selected", () => {
    const { panel, text } = mounted();
    panel.update(graph, null, null);
    expect(text()).toContain("5 nodes, 4 edges, 3 leaves.");
    expect(text()).toContain("Click a node");
  });

  it("lists what a leaf got on each rank, and where it got nothing", () => {
    const { panel } = mounted();
    const local = summary({ values: null, norm: 2.5, numel: 30, shape: [30] });
    const reduced = summary({ norm: 1.118 });
    const details: DetailsModel = {
      ...detailsOf(graph, 3),
      ranks: [
        { rank: 0, local, reduced, difference: null, bucket: 0, ready: 1, odd: false },
        {
          rank: 2,
          local: null,
          reduced: null,
          difference: null,
          bucket: null,
          ready: null,
          odd: true,
        },
      ],
    };
    panel.update(graph, 3, details);
    const rows = [...panel.element.querySelectorAll('[data-section="ranks"] tbody tr')];
    const cells = rows.map((row) => [...row.children].map((cell) => cell.textContent));
    expect(cells).toEqual([
      // Outliers come first.
      ["2\u25c6", "none", "none", "–", "–"],
      ["0", expect.stringContaining("2.5"), "‖1.118‖", "1", "2"],
    ]);
    expect((rows[1].children[2] as HTMLElement).title).toContain("[1, 0.5]");
    panel.update(graph, 3, { ...details, ranks: [] });
    expect(panel.element.querySelector('[data-section="ranks"]')).toBeNull();
  });

  it("never shows one node's details for another", () => {
    vi.useFakeTimers();
    const { panel, text } = mounted();
    panel.update(graph, 1, detailsOf(graph, 0));
    expect(text()).toContain("MulBackward0");
    expect(text()).toContain("Loading details…");
    expect(text()).not.toContain("AddBackward0");
    vi.advanceTimersByTime(5000);
    expect(text()).toContain("Still waiting for Python.");
    panel.update(graph, 1, detailsOf(graph, 1));
    expect(text()).not.toContain("Loading");
    expect(text()).toContain("is_leafFalse");
    panel.destroy();
  });

  it("goes to inputs, consumers and targets of gradients", () => {
    const { panel, went } = mounted();
    panel.update(graph, 1, detailsOf(graph, 1));
    const links = [...panel.element.querySelectorAll<HTMLElement>(".gw-link")];
    expect(links.map((link) => link.textContent)).toEqual(["w", "x", "w", "x", "h"]);
    for (const link of links) link.click();
    expect(went).toEqual([3, 4, 3, 4, 0]);
  });

  it("shows names as text", () => {
    const { panel, text } = mounted();
    const details: DetailsModel = {
      ...detailsOf(graph, 1),
      name: EVIL,
      about: EVIL,
      forward: EVIL,
      saved: [{ name: EVIL, summary: null, scalar: EVIL, freed: true, note: EVIL }],
    };
    panel.update(graph, 1, details);
    expect(panel.element.querySelector("img")).toBeNull();
    expect(text()).toContain(EVIL);
  });

  it("says how many there are of what it lists in part", () => {
    const { panel, text } = mounted();
    const details = detailsOf(graph, 1);
    const listed = details.inputs.length + details.no_grad_inputs.length + details.constants.length;
    panel.update(graph, 1, {
      ...details,
      outputs: [0, 1].map((output_nr) => ({ ...details.outputs[0], output_nr })),
      input_count: listed + 900,
      output_count: 802,
      saved_count: details.saved.length + 700,
    });
    for (const section of ["inputs", "formula"])
      expect(panel.element.querySelector(`[data-section=${section}]`)?.textContent).toContain(
        "and 900 more",
      );
    expect(text()).toContain("and 800 more");
    expect(text()).toContain("and 700 more");
  });

  it("says why a part is missing, in its place", () => {
    const { panel } = mounted();
    const details = detailsOf(graph, 1);
    for (const part of ["formula", "saved", "chain", "contributions"] as const) {
      const empty = { ...details, formula: [], saved: [], chain: null, contributions: null };
      panel.update(graph, 1, { ...empty, failed: [{ part, sentence: `No ${part}: ${EVIL}` }] });
      const shown = panel.element.querySelector(`[data-section=${part}]`);
      expect(shown?.textContent).toContain(`No ${part}: ${EVIL}`);
      expect(panel.element.querySelector("img")).toBeNull();
    }
  });

  it("keeps closed sections, scrolling and focus while one node's details change", () => {
    const { panel } = mounted();
    panel.update(graph, 1, detailsOf(graph, 1));
    const part = <E extends HTMLElement>(selector: string) =>
      panel.element.querySelector<E>(selector) as E;
    const saved = () => part<HTMLDetailsElement>('[data-section="saved"]');
    saved().open = false;
    saved().dispatchEvent(new Event("toggle"));
    part(".gw-panel-body").scrollTop = 40;
    part('[data-focus="consumer.0"]').focus();
    panel.update(graph, 1, detailsOf(graph, 1));
    expect(saved().open).toBe(false);
    expect(part(".gw-panel-body").scrollTop).toBe(40);
    expect((document.activeElement as HTMLElement).dataset.focus).toBe("consumer.0");
    panel.update(graph, 0, detailsOf(graph, 0));
    expect(part(".gw-panel-body").scrollTop).toBe(0);
    expect(panel.element.contains(document.activeElement)).toBe(true);
  });

  it("marks everything that takes the keyboard for Jupyter", () => {
    const { panel } = mounted();
    panel.update(graph, 1, detailsOf(graph, 1));
    const focusable = panel.element.querySelectorAll("button, summary, [tabindex]");
    expect(focusable.length).toBeGreaterThan(5);
    for (const one of focusable)
      expect(one.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
  });
});

describe("slices", () => {
  it("wraps a vector and names every index", () => {
    const [part] = slices([1, 2, 3, 4, 5], [[0, 10, 20, 30, 40]]);
    expect(part.rows.map((row) => row.label)).toEqual(["0", "40"]);
    expect(part.rows[0].cells[1].title).toBe("[10] = 2");
  });

  it("cuts four dimensions into grids", () => {
    const grid = [[1, 2]];
    const parts = slices([[grid, grid, grid]], [[5], [0, 2, 4], [1], [0, 6]]);
    expect(parts.map((part) => part.heading)).toEqual([
      "[5, 0, :, :]",
      "[5, 2, :, :]",
      "[5, 4, :, :]",
    ]);
    expect(parts[1].columns).toEqual(["0", "6"]);
    expect(parts[1].rows[0].cells[1].title).toBe("[5, 2, 1, 6] = 2");
  });
});

describe("tensorView", () => {
  const text = (change: Partial<TensorSummary>) =>
    tensorView(summary(change), "t").textContent ?? "";

  it("says what is not shown", () => {
    expect(
      text({ shape: [96, 98], numel: 9408, truncated: true, indices: [[0, 97]], values: [1, 2] }),
    ).toContain("2 of 9,408 values, evenly spread");
    expect(text({ values: null, note: "A meta tensor: it has no values." })).toContain(
      "A meta tensor",
    );
    expect(text({ shape: [0], numel: 0, values: [], min: null, max: null, mean: null })).toContain(
      "empty",
    );
    expect(text({ shape: [], numel: 1, values: 4 })).toContain("scalar · float32 · cpu4.0");
  });

  it("draws attention to nan and inf", () => {
    const view = tensorView(summary({ values: ["nan", 1], min: "nan", nan: 1 }), "t");
    expect([...view.querySelectorAll(".is-alarming")].map((part) => part.textContent)).toEqual([
      "nan",
    ]);
    const many = summary({ numel: 900, truncated: true, min: "nan", nan: 1 });
    expect(
      [...tensorView(many, "t").querySelectorAll(".is-alarming")].map((part) => part.textContent),
    ).toEqual(["minnan", "nan1"]);
    expect(tensorView(summary({}), "t").querySelector(".is-alarming")).toBeNull();
  });
});

describe("pythonText", () => {
  it.each([
    [null, "None"],
    [true, "True"],
    [[1, [false, "x"]], "[1, [False, x]]"],
    ["mean", "mean"],
  ])("writes %j as %s", (value, text) => expect(pythonText(value)).toBe(text));
});
