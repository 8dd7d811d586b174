// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { recordingOf } from "../steps/recording";
import { detailsOf, number } from "../testing/details";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { boardNumber } from "../text/gradient";
import type { DetailsModel, FactorModel } from "../wire";
import { Panel } from "./panel";

const EVIL = "<img src=x onerror=alert(1)>";
const graph = MODELS["(x + 1 - 2 * x) ** 2"]();
const { steps, run } = fakeRun(graph, "fine");
const recording = recordingOf(graph, steps, run);
const X = 4;

const share = (step: number, consumer: number, label: string, argument: string) =>
  ({ step, consumer, label, argument, arg_nr: argument === "self" ? 0 : 1, output_nr: 0 }) as const;
const SHARES = [
  { ...share(3, 3, "y2", "other"), grad: number(8), total: number(8) },
  { ...share(4, 2, "y1", "self"), grad: number(-4), total: number(4) },
];

const factors = (...values: number[]) =>
  values.map((value) => ({ edge: 0, node: 0, target: 1, code: `${value}`, value, note: null }));
const CHAIN = {
  paths: [
    { factors: factors(-4, -1, 2), written: "(-4) * (-1) * 2", product: 8 },
    { factors: factors(-4, 1, 1), written: "(-4) * 1 * 1", product: -4 },
  ],
  total_paths: 2,
  written: "8 + (-4)",
  sum: 4,
  note: "Along each way the local derivatives are multiplied.",
};

/** The details of a node after so many steps. */
function detailsAt(id: number, cursor: number, change: Partial<DetailsModel> = {}) {
  const details = detailsOf(graph, id);
  return {
    ...details,
    contributions: id === X ? SHARES.filter(({ step }) => step <= cursor) : [SHARES[0]],
    contribution_count: 2,
    grad_input: details.inputs.map(() => number(1)),
    chain: id === X ? CHAIN : null,
    ...change,
  };
}

function shown(id: number, cursor: number, change: Partial<DetailsModel> = {}) {
  const went: number[] = [];
  const panel = new Panel({
    goTo: (node) => went.push(node),
    goToModule: () => {},
    close: () => {},
  });
  document.body.replaceChildren(panel.element);
  const progress = { recording, cursor };
  panel.update(graph, id, detailsAt(id, cursor, change), progress);
  const part = (name: string) =>
    panel.element.querySelector<HTMLElement>(`[data-section="${name}"]`);
  return { part, panel, went };
}

const rows = (section: HTMLElement | null) =>
  [...(section?.querySelectorAll("tbody tr") ?? [])].map((row) =>
    [...row.children].map((cell) => cell.textContent),
  );

describe("the panel while stepping", () => {
  it("adds up what arrived by the cursor", () => {
    expect(rows(shown(X, 3).part("contributions"))).toEqual([["3", "y2 as other", "8", "8"]]);
    const { part, went } = shown(X, 5);
    expect(rows(part("contributions"))).toEqual([
      ["3", "y2 as other", "8", "8"],
      ["4", "y1 as self", "\u22124", "4"],
    ]);
    for (const link of part("contributions")?.querySelectorAll("button") ?? []) link.click();
    expect(went).toEqual([3, 2]);
  });

  it("leaves a node with a single consumer alone", () => {
    expect(shown(1, 5).part("contributions")).toBeNull();
    expect(shown(X, 5, { contributions: null }).part("contributions")).toBeNull();
  });

  it("names the seed, and what was not kept", () => {
    const seed = { step: 0, consumer: null, arg_nr: null, argument: null, output_nr: 0 };
    const { part } = shown(X, 5, {
      contributions: [{ ...seed, label: EVIL, grad: null, total: null }],
    });
    expect(rows(part("contributions"))).toEqual([["0", EVIL, "not kept", "not kept"]]);
  });

  it("writes what came in times the local derivative, of single numbers, once the node has run", () => {
    const given = (id: number, cursor: number) =>
      [...(shown(id, cursor).part("formula")?.querySelectorAll(".gw-product") ?? [])].map(
        (one) => one.firstChild?.textContent,
      );
    for (const { node, step } of recording.steps) {
      const passed = recording.passed.get(node) ?? [];
      const products = passed.map((i) => {
        const [came, local] = recording.locals.get(recording.run?.edges[i] ?? -1) ?? [0, 0];
        return `${boardNumber(came)} × ${boardNumber(local)} = `;
      });
      expect(given(node, step)).toEqual(products);
      expect(given(node, step - 1)).toEqual([]);
    }
  });

  it("shows derivatives as code, and torch's own as torch's", () => {
    const local = { arg_nr: 0, argument: "self", note: null, source: "gradwalk" } as const;
    const formula = [
      { ...local, code: "grad * 2 * self", numbers: "grad * 2 * -2", checked: true },
    ];
    const own = shown(0, 5, { formula }).part("formula");
    expect([...(own?.querySelectorAll("code") ?? [])].map((code) => code.textContent)).toEqual([
      "grad * 2 * self",
      "grad * 2 * -2",
    ]);
    expect(own?.textContent).not.toContain("torch");
    const one = { arg_nr: 1, argument: null, code: EVIL, numbers: null, checked: false };
    const { part } = shown(0, 5, { formula: [{ ...one, source: "torch", note: EVIL }] });
    expect(part("formula")?.textContent).toContain("input 1");
    expect(part("formula")?.textContent).toContain("torch's own formula");
    expect(part("formula")?.querySelector("code")?.textContent).toBe(EVIL);
    expect(document.querySelector("img")).toBeNull();
  });

  it.each([
    [
      "gradwalk",
      true,
      "Python. It ran with the numbers of this pass and gave the gradient passed on.",
    ],
    ["gradwalk", false, "Python. It has not run with the numbers of a pass."],
    ["torch", false, null],
  ] as const)("says what is known of the code: %s, checked %s", (source, checked, title) => {
    const one = { arg_nr: 0, argument: "self", code: "grad", numbers: null, source, note: null };
    const part = shown(0, 5, { formula: [{ ...one, checked }] }).part("formula");
    expect(part?.querySelector("code")?.getAttribute("title")).toBe(title);
  });

  it("multiplies along each path and adds the paths up", () => {
    const chain = shown(X, 5).part("chain");
    const codes = [...(chain?.querySelectorAll(".gw-code") ?? [])].map((code) => code.textContent);
    expect(codes).toEqual(["(-4) * (-1) * 2 = 8", "(-4) * 1 * 1 = -4", "8 + (-4) = 4"]);
    expect(chain?.querySelectorAll(".gw-path[open]")).toHaveLength(2);
    expect(shown(0, 5).part("chain")).toBeNull();
  });

  it("folds long paths, says how many there are, and remembers what was opened", () => {
    const factor: FactorModel = {
      edge: 0,
      node: 0,
      target: 1,
      code: EVIL,
      value: "nan",
      note: EVIL,
    };
    const path = { factors: Array.from({ length: 9 }, () => factor), written: EVIL, product: null };
    const chain = { paths: [path], total_paths: "inf", written: null, sum: null, note: EVIL };
    const { part, panel } = shown(X, 5, { chain });
    const fold = () => part("chain")?.querySelector("details.gw-path") as HTMLDetailsElement;
    expect(part("chain")?.textContent).toContain("1 of inf paths");
    expect(fold().open).toBe(false);
    fold().open = true;
    fold().dispatchEvent(new Event("toggle"));
    const progress = { recording, cursor: 4 };
    panel.update(graph, X, detailsAt(X, 4, { chain }), progress);
    expect(fold().open).toBe(true);
    expect(document.querySelector("img")).toBeNull();
  });

  it("keeps the keyboard on a link while steps go by, and marks what takes it", () => {
    const { part, panel } = shown(X, 5);
    part("contributions")?.querySelector("button")?.focus();
    const progress = { recording, cursor: 4 };
    panel.update(graph, X, detailsAt(X, 4), progress);
    expect(part("contributions")?.contains(document.activeElement)).toBe(true);
    for (const one of panel.element.querySelectorAll("button, summary, [tabindex]"))
      expect(one.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
  });
});
