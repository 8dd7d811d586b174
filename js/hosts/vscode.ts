import type { Host } from "./host";

/** The element that its renderer puts around a widget. */
const OUTPUT = ".cell-output-ipywidget-background";

export const vscode = {
  marks: [
    {
      on: "body",
      attribute: "data-vscode-theme-kind",
      theme: (kind) => (/dark|^vscode-high-contrast$/.test(kind) ? "dark" : "light"),
    },
  ],
  /**
   * When a cell runs again, its output leaves the page before the widget ends. The renderer then detaches the widget,
   * which fails outside a page, so this puts the output back for that moment.
   */
  ending(el) {
    if (el.isConnected || !el.closest(OUTPUT)) return;
    const output = el.getRootNode() as HTMLElement;
    output.hidden = true;
    document.body.append(output);
    setTimeout(() => output.remove());
  },
} satisfies Host;
