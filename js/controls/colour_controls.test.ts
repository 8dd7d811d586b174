// @vitest-environment jsdom
import { expect, it, vi } from "vitest";
import { ALL_ZEROS, type ColourLegend, ZERO } from "../colours/colouring";
import { colourKey, createColourControls } from "./colour_controls";

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

it("writes values below the scale that do not touch each other, the last one always", () => {
  const texts = (list: string[]) => {
    const ticks = list.map((text, i) => ({ at: i / (list.length - 1), text }));
    const [scale] = colourKey({ ...legend([]), ticks });
    return [...scale.querySelectorAll(".gw-tick")].map(({ textContent }) => textContent);
  };
  expect(texts(["1", "10", "100", "1e3", "1e4"])).toEqual(["1", "10", "100", "1e3", "1e4"]);
  const long = ["2 MFLOP", "4 MFLOP", "6 MFLOP", "8 MFLOP", "10 MFLOP"];
  expect(texts(long)).toEqual(["2 MFLOP", "6 MFLOP", "10 MFLOP"]);
});
