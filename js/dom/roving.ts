/** The tools of a bar; open menus and lists have ways of their own. */
const TOOLS = "button, select, input";
const APART = "[hidden], .gw-menu-list, [role=listbox]";

/**
 * Make a bar one stop of the tab key: arrow keys, Home and End move between its tools. Returns a function that finds the
 * stop anew after tools have come or gone.
 */
export function rove(bar: HTMLElement): () => void {
  let stop: HTMLElement | null = null;
  const tools = () =>
    [...bar.querySelectorAll<HTMLElement>(TOOLS)].filter(
      (tool) => !tool.closest(APART) && !tool.matches(":disabled") && isDrawn(tool),
    );
  const update = (): void => {
    const found = tools();
    if (!stop || !found.includes(stop)) stop = found[0] ?? null;
    for (const tool of bar.querySelectorAll<HTMLElement>(TOOLS))
      if (!tool.closest(".gw-menu-list")) tool.tabIndex = tool === stop ? 0 : -1;
  };
  bar.addEventListener("focusin", ({ target }) => {
    const tool = (target as Element).closest<HTMLElement>(TOOLS);
    if (!tool || !tools().includes(tool)) return;
    stop = tool;
    update();
  });
  bar.addEventListener("keydown", (event) => {
    const { target, key } = event;
    const found = tools();
    const at = found.indexOf(target as HTMLElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[key];
    // A field has its own arrows.
    if (to === undefined || at < 0 || (target as Element).matches("input")) return;
    found.at(to % found.length)?.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  update();
  return update;
}

/** Whether a tool has a place in the page; the style sheet leaves out tools that do not fit. */
function isDrawn(tool: HTMLElement): boolean {
  return tool.checkVisibility?.() ?? true;
}
