// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { localChannel, type Traits } from "./channel";
import { createComparison } from "./compare/view";
import type { Direction } from "./layout/direction";
import { edgeParts } from "./paint/edge_parts";
import { firstView } from "./scene/views";
import { nextFrame, testPage } from "./testing/browser";
import { compareTraits, graphOf, localComparison, passOf } from "./testing/panes";
import { sceneOf } from "./testing/scenes";
import { createView } from "./view";
import { DETAILS_DEFAULTS, type DetailsModel, type GraphModel } from "./wire";

const page = testPage();

/** aten.linear of an input and a parameter, and a buffer. */
const program = (): GraphModel => ({
  ...graphOf(
    [
      "- op aten.add.Tensor",
      "- op aten.linear.default",
      "x leaf placeholder",
      "fc.weight leaf parameter",
      "shift constant buffer",
    ],
    ["0 1 self", "1 2 input", "1 3 weight", "0 4 other constant"],
  ),
  static: true,
});

const WHY = "A static graph has no backward. Run it.";

function detailsOf(graph: GraphModel, id: number): DetailsModel {
  const { kind, op, name, shape } = graph.nodes[id];
  return {
    ...DETAILS_DEFAULTS,
    ...{ id, kind, op, name, shape, dtype: "torch.float32", device: "cpu" },
    ...{ about: "A call.", forward: "linear = aten.linear.default(x)" },
    ...{ output_count: 0, saved_count: 0, input_count: 0, consumer_count: 0 },
    ...{ contribution_count: 0, operation_count: 0, state: "waiting" },
    grad_note: { grad: WHY, grad_output: WHY, grad_input: WHY },
  };
}

async function view(change: Partial<Traits> = {}) {
  const host = document.body.appendChild(document.createElement("div"));
  const graph = program();
  const channel = localChannel({
    model: graph,
    details: null,
    state: {
      runs: 0,
      reached: [],
      flowed: [],
      freed: [],
      held: [],
      note: "Static graph of torch.export.",
    },
    _fault: null,
    selected: null,
    direction: "up",
    constants: true,
    cursor: 0,
    _steps: [],
    run: null,
    transport: { owned: false, note: null, blocked: WHY },
    ...change,
  });
  page.remove = createView(host, channel);
  await nextFrame();
  const text = (selector: string) => host.querySelector(selector)?.textContent ?? "";
  return { host, channel, text, graph };
}

/** Each edge's arrowhead: its tip and its base. */
function arrows(graph: GraphModel, direction: Direction, heading: [number, number]) {
  const scene = sceneOf(graph, direction);
  return scene.edges
    .filter(({ quiet }) => quiet === undefined)
    .map((edge) => {
      const arrow = edgeParts(edge, heading, scene.isStatic).find(
        ({ attributes }) => attributes.class === "gw-arrow",
      );
      const [x, y, left, top] =
        String(arrow?.attributes.d)
          .match(/-?[\d.]+/g)
          ?.map(Number) ?? [];
      return { tip: [x, y], base: [left, top], curve: Array.from(edge.curve) };
    });
}

describe("a static graph", () => {
  it("has its arrows the way data flows: at what takes it, pointing there", () => {
    for (const { tip, base, curve } of arrows(program(), "down", [0, 1])) {
      expect(tip).toEqual(curve.slice(0, 2));
      expect(tip[1]).toBeLessThan(base[1]);
    }
    const autograd = { ...program(), static: false };
    for (const { tip, base, curve } of arrows(autograd, "down", [0, 1])) {
      expect(tip).toEqual(curve.slice(-2));
      const isDocked = curve[1] === curve[curve.length - 1];
      if (isDocked) expect(tip[0]).toBeGreaterThan(base[0]);
      else expect(tip[1]).toBeGreaterThan(base[1]);
    }
  });

  it("is seen first where its data comes in", () => {
    const chain = graphOf(
      Array.from({ length: 80 }, (_, i) => (i === 79 ? "x leaf placeholder" : "- op sin")),
      Array.from({ length: 79 }, (_, i) => `${i} ${i + 1} self`),
    );
    const stage = { width: 600, height: 400 };
    for (const isStatic of [true, false]) {
      const scene = sceneOf({ ...chain, static: isStatic }, "up");
      const { k, y } = firstView(scene, stage);
      const [root, input] = [scene.nodes[0], scene.nodes[79]].map((node) => k * node.y + y);
      expect(input > 0 && input < stage.height).toBe(true);
      expect(root > 0 && root < stage.height).toBe(!isStatic); // a dynamic graph is seen whole
    }
  });

  it("says of what goes in what it is", async () => {
    const { host, text } = await view();
    const words = [...host.querySelectorAll(".gw-node")].map((node) => node.textContent);
    expect(words[2]).toContain("xplaceholder");
    expect(words[3]).toContain("fc.weightparameter");
    expect(words[1]).not.toContain("placeholder");
    host.querySelector<HTMLElement>('[aria-label="Legend and keys"]')?.click();
    expect(text(".gw-legend")).toContain("input or parameter");
    expect(text(".gw-legend")).toContain("data flows");
    expect(text(".gw-legend")).toContain("buffer or constant");
    expect(host.textContent).not.toMatch(/requires grad|needs no grad|[Gg]radients flow/);
  });

  it("turns the words for the direction round", async () => {
    const { host, text } = await view();
    host.querySelector<HTMLElement>('[aria-label="Legend and keys"]')?.click();
    const select = host.querySelector<HTMLSelectElement>(".gw-help .gw-direction select");
    expect(text(".gw-help .gw-direction span")).toBe("Data flows");
    expect(select?.selectedOptions[0].text).toBe("↓ down");
    expect(select?.value).toBe("up");
    expect(select?.title).toBe("Data flows this way in the drawing");
  });

  it("calls itself what it is", async () => {
    const { host, text } = await view();
    expect(host.querySelector(".gw-canvas")?.getAttribute("aria-label")).toMatch(
      /^Static graph of/,
    );
    host.querySelector<HTMLElement>('[aria-label="Legend and keys"]')?.click();
    expect(text(".gw-panel")).toContain("Static graph4 nodes, 3 edges, 2 inputs.");
    expect(text(".gw-panel")).toContain("what it calls");
    expect(text(".gw-bar")).toContain(WHY);
    expect(host.querySelector<HTMLElement>(".gw-diagnose")?.hidden).toBe(true);
  });

  it("has a panel without gradients, but for why there are none", async () => {
    const graph = program();
    const { host, text } = await view({ selected: 1, details: detailsOf(graph, 1) });
    const titles = [...host.querySelectorAll("[data-section]")].map(
      (part) => (part as HTMLElement).dataset.section,
    );
    expect(titles).toEqual(["grad"]);
    expect(text("[data-section=grad]")).toContain(WHY);
    expect(text(".gw-forward")).toBe("linear = aten.linear.default(x)");
    expect(text(".gw-facts")).not.toMatch(/requires_grad|is_leaf/);
    page.remove();
    const parameter = await view({ selected: 3, details: detailsOf(graph, 3) });
    expect(parameter.text(".gw-chips")).toContain("parameter");
  });
});

describe("a static graph beside a dynamic one", () => {
  const dynamic = graphOf(
    ["- op AddBackward0", "- op AddmmBackward0", "x leaf", "fc.weight leaf"],
    ["0 1 self", "1 2 mat1", "1 3 mat2"],
  );
  const traits = () => {
    const panes = [
      { label: "dynamic", graph: dynamic },
      { label: "static", graph: program() },
    ];
    const passes = panes.map(({ graph }) => passOf(graph, null));
    passes[1].transport.note = "static: nothing runs.";
    return compareTraits({
      panes,
      members: [
        [0, 0],
        [1, 1],
        [2, 2],
        [3, 3],
        [null, 4],
      ],
      details: [null, null],
      passes,
      table: {
        rows: [
          {
            name: "x",
            cells: [
              { node: 2, requires_grad: true, is_leaf: true, before: null, now: null },
              { node: 2, requires_grad: null, is_leaf: null, before: null, now: null },
            ],
          },
        ],
        total: 1,
      },
    });
  };

  async function comparison() {
    const host = document.body.appendChild(document.createElement("div"));
    page.remove = createComparison(host, localComparison(traits()));
    await nextFrame();
    return host;
  }

  it("marks no edge as different for what its argument is called, and calls it so in each", async () => {
    const host = await comparison();
    const [left, right] = host.querySelectorAll(".gw-pane");
    expect(left.querySelectorAll(".gw-only-tag")).toHaveLength(0);
    expect(right.querySelectorAll(".gw-only-tag")).toHaveLength(1);
    const labels = (pane: Element) =>
      [...pane.querySelectorAll(".gw-edge-label")].map((label) => label.textContent).sort();
    expect(labels(left)).toEqual(["mat1", "mat2", "self"]);
    expect(labels(right)).toEqual(["input", "other", "self", "weight"]);
  });

  it("says in the legend what the signs are in either", async () => {
    const host = await comparison();
    const legend = host.querySelector(".gw-legend")?.textContent;
    expect(legend).toContain("static: data flows");
    expect(legend).toContain("leaf that requires grad, static: input or parameter");
  });

  it("leaves the table empty where a graph has no gradients", async () => {
    const host = await comparison();
    const cells = [...host.querySelectorAll(".gw-leaves tbody td")].map((cell) => cell.textContent);
    expect(cells).toEqual(["True", "True", "None", "None", "static: no gradient"]);
    expect(host.querySelector(".gw-leaves .gw-differs")).toBeNull();
  });
});
