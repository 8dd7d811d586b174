import { button, type Cleanup, element } from "../dom/element";
import { ICONS } from "../dom/icons";

const KEY = "gradwalk.met";
/** The callouts that are on the page. */
const shown = new Set<HTMLElement>();
let isMet = false;

/** The controls that the callout names; using one of them is enough. */
const FIRST_USES =
  ".gw-node, .gw-bar .gw-button, .gw-callout .gw-button, [aria-label='Legend and keys']";

/**
 * A line in the first widget of a notebook that says what its colours mean. It goes away for good, in all widgets, once
 * the reader has clicked, stepped or asked for the legend.
 */
export function createCallout(root: HTMLElement, cleanup: Cleanup): HTMLElement {
  const close = button({ label: "Close this hint", icon: ICONS.close }, () => {});
  close.tabIndex = -1; // the first key goes past it, too
  const isSaid = hasMet() || [...shown].some(({ isConnected }) => isConnected);
  const line = element("span", { class: "gw-callout", role: "note", hidden: isSaid }, [
    element("span", "gw-says-grad", "green arrows: gradients flow"),
    element("span", "gw-says-grad", "dark green: stored in .grad"),
    element("span", {}, "light green: passed on"),
    element("span", "gw-says-leaf", "amber: a leaf"),
    element("span", {}, "dashed box: needs no gradient"),
    element("span", {}, "? explains the rest"),
    close,
  ]);
  if (line.hidden) return line;
  shown.add(line);
  cleanup.add(() => shown.delete(line));
  cleanup.listen<MouseEvent>(root, "click", ({ target }) => {
    if ((target as Element).closest(FIRST_USES)) meet();
  });
  cleanup.listen<KeyboardEvent>(root, "keydown", ({ key }) => {
    if (key === "?" || key === "Enter") meet();
  });
  return line;
}

function hasMet(): boolean {
  try {
    isMet ||= localStorage.getItem(KEY) !== null;
  } catch {
    // A host without storage shows the callout once per page.
  }
  return isMet;
}

function meet(): void {
  isMet = true;
  for (const line of shown) line.hidden = true;
  shown.clear();
  try {
    localStorage.setItem(KEY, "1");
  } catch {
    // As above.
  }
}
