// @vitest-environment jsdom
import { expect, it, vi } from "vitest";
import { Cleanup, element } from "./element";
import { ownKeys } from "./own_keys";

function pressed(key: string, on: HTMLElement, init: KeyboardEventInit = {}) {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init });
  on.dispatchEvent(event);
  return event;
}

it("keeps keys from the page, does what they are for, and nothing where somebody types", () => {
  const field = element("input", {});
  const root = element("div", {}, field);
  const page = element("div", {}, root);
  const heard = vi.fn();
  for (const type of ["keydown", "keyup", "keypress"]) page.addEventListener(type, heard);
  const fit = vi.fn();
  const cleanup = new Cleanup();
  ownKeys(root, { f: fit, Escape: () => false }, cleanup);

  expect(pressed("f", root).defaultPrevented).toBe(true);
  expect(fit).toHaveBeenCalledOnce();
  expect(pressed("Escape", root).defaultPrevented).toBe(false);
  expect(pressed("x", root).defaultPrevented).toBe(false);
  expect(pressed("toString", root).defaultPrevented).toBe(false);
  pressed("f", field);
  root.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
  expect(fit).toHaveBeenCalledOnce();
  expect(heard).not.toHaveBeenCalled();

  for (const held of ["ctrlKey", "metaKey", "altKey"]) pressed("f", root, { [held]: true });
  for (const key of ["F1", "F12"]) pressed(key, field);
  expect(heard).toHaveBeenCalledTimes(5); // shortcuts are the host's
  expect(fit).toHaveBeenCalledOnce();
  heard.mockClear();

  cleanup.run();
  pressed("f", root);
  expect(fit).toHaveBeenCalledOnce();
  expect(heard).toHaveBeenCalledOnce();
});
