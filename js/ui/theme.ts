export type Theme = "light" | "dark";

/** What the host page shows: Jupyter, marimo, VS Code or Colab say so on the page, others leave it to the system. */
export function hostTheme(within: Element): Theme {
  const { body, documentElement: html } = document;
  const jupyter = body.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false" ? "dark" : "light";
  for (const value of [body.dataset.theme, html.dataset.theme, html.getAttribute("theme")]) {
    if (value === "dark" || value === "light") return value;
  }
  const kind = body.dataset.vscodeThemeKind;
  if (kind !== undefined) return /dark|^vscode-high-contrast$/.test(kind) ? "dark" : "light";
  for (let at: Element | null = within; at; at = parentAcrossShadow(at)) {
    if (at.classList.contains("dark")) return "dark";
    if (at.classList.contains("light")) return "light";
  }
  const system =
    typeof matchMedia === "function" && matchMedia("(prefers-color-scheme: dark)").matches;
  return system ? "dark" : "light";
}

/** Keeps `data-theme` on the element at the host's theme until the returned function is called. */
export function followTheme(root: HTMLElement): () => void {
  const apply = () => {
    root.dataset.theme = hostTheme(root.parentElement ?? root);
  };
  apply();
  const observer = new MutationObserver(apply);
  const attributes = {
    attributes: true,
    attributeFilter: [
      "class",
      "theme",
      "data-theme",
      "data-jp-theme-light",
      "data-vscode-theme-kind",
    ],
  };
  observer.observe(document.documentElement, attributes);
  observer.observe(document.body, attributes);
  const system =
    typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
  system?.addEventListener("change", apply);
  return () => {
    observer.disconnect();
    system?.removeEventListener("change", apply);
  };
}

function parentAcrossShadow(element: Element): Element | null {
  if (element.parentElement) return element.parentElement;
  const root = element.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
}
