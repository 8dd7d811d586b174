import { button, choice, element, optionsOf } from "../dom/element";
import { Remembered } from "../dom/remembered";
import { deepest, depthOf, setPlumbing, setRepeats, toDepth } from "../fold/folding";
import type { FoldController } from "../interact/fold_controller";

/** The deepest level with a button of its own; boxes below open one by one. */
const MOST_LEVELS = 4;

/** The controls of open levels, hidden plumbing and folded repeats. */
export function createFoldingControls(folds: FoldController) {
  const label = "How many levels of modules are open";
  const depths = choice({ class: "gw-depth", "aria-label": label, title: label }, (value) => {
    const { grouped } = folds;
    const depth = value === "all" ? Number.POSITIVE_INFINITY : Number(value);
    if (grouped) folds.change((folding) => toDepth(grouped.tree, folding, depth), "first");
  });
  const modules = element("label", "gw-menu-choice", [element("span", {}, "Modules"), depths]);
  const plumbing = toggle(
    "Hide views and transposes",
    "Fold views, transposes, expands, clones and casts into the edges that they sit on",
    () => folds.change((folding) => setPlumbing(folding, !folding.hidesPlumbing)),
  );
  const repeats = toggle(
    "Fold repeats",
    "Draw four or more blocks that are alike and follow each other as a strip of bars",
    () => folds.change((folding) => setRepeats(folding, !folding.foldsRepeats)),
  );
  const shown = new Remembered();
  return {
    element: element("span", "gw-folding", [modules, repeats, plumbing]),
    update() {
      const { grouped, folding } = folds;
      if (!grouped || !folding) return;
      const { tree } = grouped;
      const levels = deepest(tree);
      modules.hidden = levels === 0;
      repeats.hidden = levels === 0;
      plumbing.hidden = !grouped.plumbing.includes(1);
      plumbing.setAttribute("aria-pressed", String(folding.hidesPlumbing));
      repeats.setAttribute("aria-pressed", String(folding.foldsRepeats));
      const depth = depthOf(tree, folding);
      const options: [string, string][] = [["0", "closed"]];
      for (let d = 1; d < levels && d <= MOST_LEVELS; d++) options.push([`${d}`, `depth ${d}`]);
      options.push(["all", "all open"]);
      const value = depth === null ? "" : depth === levels ? "all" : `${depth}`;
      if (!options.some(([known]) => known === value)) options.unshift([value, "automatic"]);
      if (shown.isNew(options.join())) depths.replaceChildren(...optionsOf(options));
      if (depths.value !== value) depths.value = value;
    },
  };
}

/** A choice that is on or off. */
export function toggle(text: string, title: string, clicked: () => void): HTMLButtonElement {
  return button(
    { label: text, title, text, pressed: false, class: "gw-menu-item gw-toggle" },
    clicked,
  );
}
