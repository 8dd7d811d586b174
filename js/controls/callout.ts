import { button, type Cleanup, element, icon } from "../dom/element";
import { ICONS } from "../dom/icons";

const KEY = "gradwalk.met";
/** The callouts that are on the page. */
const shown = new Set<HTMLElement>();
let isMet = false;

/** The controls that the callout names; using one of them is enough. */
const FIRST_USES =
  ".gw-node, .gw-bar .gw-button, .gw-callout .gw-button, [aria-label='Legend and keys']";

/**
 * A line for the first use: what a click, a step and `?` do. It goes away for good, in all widgets, once the reader has
 * used one of them.
 */
export function createCallout(root: HTMLElement, cleanup: Cleanup): HTMLElement {
  const line = element("span", { class: "gw-callout", role: "note", hidden: hasMet() }, [
    element("b", {}, "Click"),
    " a node for its numbers, ",
    icon(ICONS.forward),
    " steps through backward, ",
    element("b", {}, "?"),
    " explains the signs ",
    button({ label: "Close this hint", icon: ICONS.close }, () => {}),
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
