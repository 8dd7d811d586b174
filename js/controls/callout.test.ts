// @vitest-environment jsdom
import { expect, it, vi } from "vitest";
import { Cleanup } from "../dom/element";

async function page() {
  vi.resetModules();
  const { createCallout } = await import("./callout");
  return () => {
    const root = document.body.appendChild(document.createElement("div"));
    const line = createCallout(root, new Cleanup());
    const help = document.createElement("button");
    help.ariaLabel = "Legend and keys";
    help.setAttribute("aria-label", "Legend and keys");
    root.append(line, help);
    return { line, help };
  };
}

it("goes away for good, in all widgets, once the reader has used one of its controls", async () => {
  localStorage.clear();
  const widget = await page();
  const [one, other] = [widget(), widget()];
  // Once, in the first widget.
  expect([one.line.hidden, other.line.hidden]).toEqual([false, true]);
  one.line.click();
  expect(one.line.hidden).toBe(false);
  one.help.click();
  expect([one.line.hidden, other.line.hidden]).toEqual([true, true]);
  const reloaded = await page();
  expect(reloaded().line.hidden).toBe(true);
});
