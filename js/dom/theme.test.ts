// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { followTheme, hostTheme } from "./theme";

let systemIsDark = false;

beforeEach(() => {
  systemIsDark = false;
  vi.stubGlobal("matchMedia", () => ({
    matches: systemIsDark,
    addEventListener: () => {},
    removeEventListener: () => {},
  }));
});

afterEach(() => {
  vi.unstubAllGlobals();
  for (const element of [document.documentElement, document.body]) {
    for (const { name } of [...element.attributes]) element.removeAttribute(name);
  }
  document.body.replaceChildren();
});

const MARKS: [string, Element, string, string, string][] = [
  ["Jupyter, light", document.body, "data-jp-theme-light", "true", "light"],
  ["Jupyter, dark", document.body, "data-jp-theme-light", "false", "dark"],
  ["marimo", document.body, "data-theme", "dark", "dark"],
  ["Colab", document.documentElement, "theme", "dark", "dark"],
  ["VS Code, dark", document.body, "data-vscode-theme-kind", "vscode-dark", "dark"],
  ["VS Code, light", document.body, "data-vscode-theme-kind", "vscode-light", "light"],
  [
    "VS Code, light with high contrast",
    document.body,
    "data-vscode-theme-kind",
    "vscode-high-contrast-light",
    "light",
  ],
  ["a class", document.body, "class", "app dark", "dark"],
  ["a dark ground", document.body, "style", "background: rgb(20, 22, 30)", "dark"],
  ["a light ground", document.body, "style", "background: #ffe", "light"],
  ["no ground to see", document.body, "style", "background: rgba(0, 0, 0, 0.1)", "light"],
  ["nothing", document.body, "id", "page", "light"],
];

it.each(MARKS)("reads the theme of %s", (_, element, attribute, value, theme) => {
  element.setAttribute(attribute, value);
  for (systemIsDark of [false, true]) expect(hostTheme(document.body)).toBe(theme);
});

it("finds the class of a host beyond a shadow root", () => {
  const host = document.body.appendChild(document.createElement("div"));
  host.className = "dark";
  const inside = host.attachShadow({ mode: "open" }).appendChild(document.createElement("p"));
  expect(hostTheme(inside)).toBe("dark");
});

it("follows the host until the end", async () => {
  const root = document.body.appendChild(document.createElement("div"));
  const end = followTheme(root);
  expect(root.dataset.theme).toBe("light");
  document.body.dataset.jpThemeLight = "false";
  await Promise.resolve();
  expect(root.dataset.theme).toBe("dark");
  end();
  document.body.dataset.jpThemeLight = "true";
  await Promise.resolve();
  expect(root.dataset.theme).toBe("dark");
});
