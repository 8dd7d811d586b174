// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { stepOn } from "../../colours/scale";
import { createComparison } from "../../compare/view";
import { nextFrame, testPage } from "../../testing/browser";
import { localComparison, MEMBERS, PANES } from "../../testing/panes";
import type { ErrorModel, ErrorsModel } from "../../wire";
import { errorLegend, errorText, readErrors } from "./errors";

const node = (place: number, change: Partial<ErrorModel> = {}): ErrorModel => ({
  place,
  value: null,
  grad: null,
  leaves: null,
  ...change,
});

const ERRORS: ErrorsModel = {
  sentence: "The first to part is the value of <b>w</b>.",
  first: 1,
  nodes: [
    node(0, { value: 1e-7, grad: 0 }),
    node(1, { value: 1e-3, grad: 1e-2, leaves: "value" }),
    node(3, { value: 0, grad: 0 }),
    node(4, { value: "inf", leaves: "value" }),
  ],
};

describe("errors in words and colours", () => {
  it("have two digits, zero, infinity, or a dash for none", () => {
    expect([1.234e-5, 0, "inf", null].map((error) => errorText(error))).toEqual([
      "1.2e−5",
      "0",
      "∞",
      "–",
    ]);
  });

  it("have almost one colour where they are about alike", () => {
    const nodes = [
      node(0, { value: 0.01 }),
      node(1, { value: 0.0100001 }),
      node(2, { grad: 0.009 }),
    ];
    const { scale } = readErrors({ ...ERRORS, nodes });
    expect(scale && nodes.map(({ value, grad }) => stepOn(scale, Number(value ?? grad)))).toEqual([
      8, 8, 8,
    ]);
  });

  it("have a scale over all that are finite, and a colour of its own for what is not", () => {
    const errors = readErrors(ERRORS);
    expect(errors.scale).toEqual({ least: 1e-7, most: 1e-2 });
    expect(errorLegend(errors).entries.map(({ text }) => text)).toEqual(["infinite"]);
    expect(errorLegend(errors).ticks?.map(({ text }) => text)).toContain("1e-7");
  });
});

describe("the comparison of two runs", () => {
  const page = testPage();

  async function view(errors: ErrorsModel | null) {
    const host = document.body.appendChild(document.createElement("div"));
    const members = MEMBERS.map((of) => of.slice(0, 2)).filter((of) => of.some((n) => n !== null));
    const channel = localComparison({
      panes: PANES.slice(0, 2),
      members,
      passes: localComparison().get("passes").slice(0, 2),
      details: [null, null],
      table: { rows: [], total: 0 },
      errors,
    });
    page.remove = createComparison(host, channel);
    await nextFrame();
    return { host };
  }

  it("writes the error at each node of both, the first as such, and colours it", async () => {
    const { host } = await view(ERRORS);
    for (const pane of host.querySelectorAll(".gw-pane")) {
      const signs = [...pane.querySelectorAll(".gw-error-sign")];
      expect(signs.map((sign) => sign.textContent).sort()).toEqual(["1.0e−7", "first 1.0e−3", "∞"]);
      expect(pane.querySelectorAll(".gw-error-sign.is-out")).toHaveLength(2);
      expect(pane.querySelector('.gw-node[data-node="1"]')?.classList).toContain("is-c8");
      expect(pane.querySelectorAll(".is-c-alarm")).toHaveLength(1);
    }
  });

  it("has a summary as text, and words in the legend", async () => {
    const { host } = await view(ERRORS);
    const section = host.querySelector(".gw-errors") as HTMLElement;
    expect(section.hidden).toBe(false);
    expect(section.textContent).toContain("the value of <b>w</b>");
    expect(host.querySelector(".gw-legend")?.textContent).toContain("out of tolerance");
  });

  it("has none of it without errors", async () => {
    const { host } = await view(null);
    expect((host.querySelector(".gw-errors") as HTMLElement).hidden).toBe(true);
    expect(host.querySelector(".gw-error-sign")).toBeNull();
    expect(host.querySelector(".gw-legend")?.textContent).not.toContain("tolerance");
  });
});
