// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createMenu } from "./menu";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

function mounted(run: () => Promise<string> = async () => "Done.") {
  const menu = createMenu("Save picture", "M0,0", [
    ["SVG", run],
    ["PNG", run],
    ["Copy", run],
  ]);
  document.body.append(menu, document.createElement("input"));
  const opener = menu.querySelector("button") as HTMLButtonElement;
  const list = menu.querySelector("[role=menu]") as HTMLElement;
  const note = menu.querySelector("[role=status]") as HTMLElement;
  const press = (key: string) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    document.activeElement?.dispatchEvent(event);
    return event;
  };
  const focused = () => document.activeElement?.textContent;
  return { menu, opener, list, note, press, focused };
}

describe("a menu", () => {
  it("opens on its first item, and says so", () => {
    const { opener, list, focused } = mounted();
    expect(opener.getAttribute("aria-haspopup")).toBe("menu");
    expect([list.hidden, opener.getAttribute("aria-expanded")]).toEqual([true, "false"]);
    opener.click();
    expect([list.hidden, opener.getAttribute("aria-expanded")]).toEqual([false, "true"]);
    expect(focused()).toBe("SVG");
    opener.click();
    expect(list.hidden).toBe(true);
  });

  it("is walked by arrows, round and round", () => {
    const { opener, press, focused } = mounted();
    opener.focus();
    const walk = ["ArrowDown", "ArrowDown", "End", "ArrowDown", "ArrowUp", "ArrowUp", "Home"];
    expect(walk.map((key) => [press(key).defaultPrevented, focused()])).toEqual(
      ["SVG", "PNG", "Copy", "SVG", "Copy", "PNG", "SVG"].map((text) => [true, text]),
    );
  });

  it("opens from the end with the up arrow", () => {
    const { opener, press, focused } = mounted();
    opener.focus();
    press("ArrowUp");
    expect(focused()).toBe("Copy");
  });

  it("closes by Escape and gives the focus back; a second Escape is for others", () => {
    const { opener, list, press } = mounted();
    opener.click();
    expect(press("Escape").defaultPrevented).toBe(true);
    expect([list.hidden, document.activeElement]).toEqual([true, opener]);
    expect(press("Escape").defaultPrevented).toBe(false);
  });

  it("closes when the focus goes elsewhere", () => {
    const { opener, list } = mounted();
    opener.click();
    (document.querySelector("input") as HTMLElement).focus();
    expect(list.hidden).toBe(true);
  });

  it("says at once what it does, then what was done, and forgets it when the focus leaves", async () => {
    const { opener, list, note, press } = mounted();
    opener.click();
    (document.activeElement as HTMLElement).click();
    expect([list.hidden, note.textContent]).toEqual([true, "Drawing the picture…"]);
    expect(document.activeElement).toBe(opener);
    await vi.runAllTimersAsync();
    expect([note.hidden, note.textContent]).toEqual([false, "Done."]);
    press("Escape");
    expect(note.hidden).toBe(true);
  });

  it("says what went wrong", async () => {
    const { opener, note } = mounted(() => Promise.reject(new Error("No room for it.")));
    opener.click();
    (document.activeElement as HTMLElement).click();
    await vi.runAllTimersAsync();
    expect(note.textContent).toBe("No room for it.");
    expect(note.classList).toContain("is-alarming");
  });

  it("keeps its keys from the notebook", () => {
    const { menu } = mounted();
    for (const button of menu.querySelectorAll("button"))
      expect(button.dataset.lmSuppressShortcuts).toBe("true");
  });
});
