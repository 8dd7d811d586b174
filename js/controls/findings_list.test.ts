// @vitest-environment jsdom
import { describe, expect, it, vi } from "vitest";
import type { FindingModel, GraphModel } from "../wire";
import { bySeverity, createFindingsList, labelInModule } from "./findings_list";

const finding = (
  severity: FindingModel["severity"],
  message: string,
  nodes: number[] = [],
): FindingModel => ({
  kind: "vanishing",
  severity,
  message,
  nodes,
  numbers: [],
  module: null,
  line: null,
});

describe("the list of findings", () => {
  it("is hidden until something was looked for", () => {
    const list = createFindingsList(vi.fn(), String);
    list.update(null);
    expect(list.element.hidden).toBe(true);
    list.update([]);
    expect(list.element.hidden).toBe(false);
    expect(list.element.textContent).toContain("Nothing found");
  });

  it("puts the worst first and keeps the order of those alike", () => {
    const found = [
      finding("info", "a"),
      finding("error", "b"),
      finding("warning", "c"),
      finding("error", "d"),
    ];
    expect(bySeverity(found).map(({ message }) => message)).toEqual(["b", "d", "c", "a"]);
    expect(found[0].message).toBe("a");
  });

  it("goes to the first node by its sentence and to each by its name", () => {
    const show = vi.fn();
    const list = createFindingsList(show, (node) => `node ${node}`);
    list.update([finding("warning", "It vanishes.", [7, 9])]);
    const buttons = [...list.element.querySelectorAll("button")];
    expect(buttons.map((one) => one.textContent)).toEqual(["It vanishes.", "node 7", "node 9"]);
    for (const one of buttons) one.click();
    expect(show.mock.calls).toEqual([[7], [7], [9]]);
  });

  it("says in which module a node without a name of its own is", () => {
    const node = { kind: "op", label: "AddmmBackward0", name: null, namespace: "stem/0" };
    const said = (other: object) =>
      labelInModule({ nodes: [{ ...node, ...other }] } as unknown as GraphModel, 0);
    expect(said({})).toBe("stem.0");
    expect(said({ namespace: null })).toBe("AddmmBackward0");
    expect(said({ namespace: "" })).toBe("AddmmBackward0");
    expect(said({ label: "stem.0.weight", name: "stem.0.weight" })).toBe("stem.0.weight");
  });

  it("shows hostile words as text, and a finding without nodes without a link", () => {
    const list = createFindingsList(vi.fn(), () => "<i>x</i>");
    list.update([
      finding("error", "<img src=x onerror=alert(1)>"),
      finding("info", "b", [1, 2, 3, 4, 5, 6, 7, 8]),
    ]);
    expect(list.element.querySelector("img, i")).toBeNull();
    expect(list.element.querySelector("li")?.querySelector("button")).toBeNull();
    expect(list.element.textContent).toContain("and 2 more");
  });
});
