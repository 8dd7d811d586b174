import { statedTheme, THEME_ATTRIBUTES, type Theme } from "../hosts";

/** The host page's theme: what it states, else what a class or the background shows. */
export function hostTheme(within: Element): Theme {
  const { documentElement: html } = document;
  const stated = statedTheme();
  if (stated) return stated;
  for (let at: Element | null = within; at; at = parentAcrossShadow(at)) {
    if (at.classList.contains("dark")) return "dark";
    if (at.classList.contains("light")) return "light";
  }
  for (let at: Element | null = within; at; at = parentAcrossShadow(at)) {
    const theme = themeOfGround(getComputedStyle(at).backgroundColor);
    if (theme) return theme;
  }
  // A page without a background is white, unless it declares that it can be dark.
  const scheme = getComputedStyle(html).colorScheme ?? "";
  const isDark = /dark/.test(scheme) && (!/light/.test(scheme) || systemTheme().matches);
  return isDark ? "dark" : "light";
}

/** The theme of a computed colour, rgb(r, g, b) or rgba(r, g, b, a); null if it is transparent. */
function themeOfGround(colour: string): Theme | null {
  const [red, green, blue, alpha = 1] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  if (!colour.startsWith("rgb") || alpha < 0.5) return null;
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128 ? "dark" : "light";
}

function systemTheme(): MediaQueryList {
  return matchMedia("(prefers-color-scheme: dark)");
}

/** Keep `data-theme` on the element equal to the host's theme. Returns the function that ends it. */
export function followTheme(root: HTMLElement): () => void {
  const apply = () => {
    root.dataset.theme = hostTheme(root.parentElement ?? root);
  };
  apply();
  const observer = new MutationObserver(apply);
  const attributes = { attributeFilter: ["class", ...THEME_ATTRIBUTES] };
  observer.observe(document.documentElement, attributes);
  observer.observe(document.body, attributes);
  const system = systemTheme();
  system.addEventListener("change", apply);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", apply);
  };
}

/** Call `changed` when `followTheme` changes the theme around an element. Returns the function that ends it. */
export function whenThemeChanges(within: Element, changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  const root = within.closest(".gradwalk");
  if (root) observer.observe(root, { attributeFilter: ["data-theme"] });
  return () => observer.disconnect();
}

function parentAcrossShadow(element: Element): Element | null {
  if (element.parentElement) return element.parentElement;
  const root = element.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
}

export function prefersLessMotion(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
