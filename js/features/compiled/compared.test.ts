// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { createComparison } from "../../compare/view";
import { nextFrame, testPage } from "../../testing/browser";
import { localComparison, MEMBERS, PANES } from "../../testing/panes";
import type { CompiledModel, CompiledOperationModel } from "../../wire";
import { compiledSigns } from "./compared";

const operation = (
  place: number,
  change: Partial<CompiledOperationModel> = {},
): CompiledOperationModel => ({
  place,
  how: "one",
  calls: [place],
  again: [],
  label: "AddmmBackward0",
  where: "net.0",
  sentence: "mm, t",
  ...change,
});

const COMPILED: CompiledModel = {
  sentence: "Inside <b>compiled</b>: of 4 operations ...",
  operations: [
    operation(0),
    operation(1, { how: "several", calls: [8, 1], again: [9] }),
    operation(3, { how: "dropped", calls: [] }),
    operation(4, { how: "unknown", calls: [], sentence: "no counterpart found" }),
  ],
  adding: [6],
  others: [7],
};

describe("what became of operations in compiled code", () => {
  const page = testPage();

  it("has signs at calls, and at operations that are more or less than one call", () => {
    expect([...compiledSigns([COMPILED])].sort(([a], [b]) => a - b)).toEqual([
      [1, "2 calls"],
      [3, "no call"],
      [4, "no counterpart"],
      [6, "adds up"],
      [7, "no counterpart"],
      [8, "of Addmm"],
      [9, "again, of Addmm"],
    ]);
  });

  async function view(compiled: CompiledModel[]) {
    const host = document.body.appendChild(document.createElement("div"));
    const members = MEMBERS.map((of) => of.slice(0, 2)).filter((of) => of.some((n) => n !== null));
    const channel = localComparison({
      panes: PANES.slice(0, 2),
      members,
      passes: localComparison().get("passes").slice(0, 2),
      details: [null, null],
      table: { rows: [], total: 0 },
      compiled,
    });
    page.remove = createComparison(host, channel);
    await nextFrame();
    return { host, channel };
  }

  it("is marked in the picture and listed, as text", async () => {
    const { host, channel } = await view([COMPILED]);
    const tags = [...host.querySelectorAll(".gw-only-tag")].map((tag) => tag.textContent);
    expect(tags).toContain("2 calls");
    const section = host.querySelector(".gw-compiled") as HTMLElement;
    expect(section.textContent).toContain("<b>compiled</b>");
    const rows = [...section.querySelectorAll("tbody tr")];
    expect(rows.map((row) => row.lastElementChild?.textContent)).toEqual([
      "mm, t",
      "mm, t",
      "mm, t",
      "no counterpart found",
    ]);
    rows[1].querySelector("button")?.click();
    expect(channel.get("selected")).toBe(1);
  });

  it("is not there without compiled code that is open", async () => {
    const { host } = await view([]);
    expect((host.querySelector(".gw-compiled") as HTMLElement).hidden).toBe(true);
  });
});
