// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { fakeBrowser, nextFrame } from "../testing/browser";
import { graphOf, localComparison } from "../testing/panes";
import { createComparison } from "./view";

beforeEach(() => {
  fakeBrowser();
});

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

it("shows where the larger graph begins when the other has its far end only", async () => {
  const long = graphOf(
    Array.from({ length: 60 }, () => "- op Sin"),
    Array.from({ length: 59 }, (_, i) => `${i} ${i + 1} self`),
  );
  const short = graphOf(["- op Sin", "- op Sin"], ["0 1 self"]);
  const host = document.body.appendChild(document.createElement("div"));
  const members = long.nodes.map(({ id }) => [id < 58 ? null : id - 58, id]);
  const remove = createComparison(
    host,
    localComparison({
      panes: [
        { label: "short", graph: short },
        { label: "long", graph: long },
      ],
      members,
      details: [null, null],
      passes: localComparison().get("passes").slice(1),
      table: { rows: [], total: 0 },
    }),
  );
  await nextFrame();
  const views = [...host.querySelectorAll(".gw-layer")].map((one) => one.getAttribute("transform"));
  expect(views[0]).toBe(views[1]);
  expect(views[0]).not.toContain("NaN");
  expect(host.querySelectorAll(".gw-pane")[1].querySelector('[data-node="0"]')).not.toBeNull();
  remove();
});
