// @vitest-environment jsdom
import { expect, it, vi } from "vitest";
import { ALL_ZEROS, type ColourLegend, ZERO } from "../colours/colouring";
import { createColourControls } from "./colour_controls";

const ZEROS = [{ name: ZERO, text: ALL_ZEROS }];
const legend = (entries: ColourLegend["entries"]): ColourLegend => ({
  ...{ title: "norm", ticks: [{ at: 0, text: "1" }], entries },
});

it("offers to ask why gradients are all zero, where some are", () => {
  const diagnose = vi.fn();
  const { key, update } = createColourControls(() => {}, diagnose);
  update("grad", [], legend([]));
  expect(key.querySelector("button")).toBeNull();
  update("grad", [], legend(ZEROS));
  expect(key.textContent).toContain("all zeroswhy?");
  key.querySelector("button")?.click();
  expect(diagnose).toHaveBeenCalledOnce();
});
