import { choice, element, KEEP_KEYS } from "../dom/element";
import { Remembered } from "../dom/remembered";
import { DIRECTIONS } from "../layout/direction";
import type { DirectionChoice } from "../wire";

const DOCS = "https://github.com/gradwalk/gradwalk#readme";

const ARROW = { down: "↓", right: "→", up: "↑", left: "←" };

/** The help that opens on request: signs, keys, direction. */
export function createHelp(
  legend: HTMLElement,
  note: HTMLElement,
  choose: (direction: DirectionChoice) => void,
) {
  const select = choice(
    { class: "gw-direction-choice" },
    (value) => choose(value as DirectionChoice),
    [["auto", "as it fits best"], ...DIRECTIONS.map((value) => [value, ""] as const)],
  );
  const flowing = element("span", {});
  const shown = new Remembered();
  const key = (keys: string[], text: string) => {
    const names = keys.map((name) => element("kbd", {}, name));
    return element("li", {}, [element("span", "gw-keys", names), text]);
  };
  return {
    element: element("div", "gw-help", [
      legend,
      element("label", "gw-direction", [flowing, select]),
      element("ul", "gw-key-list", [
        key(["←", "↑", "↓", "→"], "walk along edges"),
        key(["Enter"], "select, go into a box"),
        key(["Space"], "select"),
        key(["+", "−"], "open or close a box, or zoom"),
        key(["Home"], "first node"),
        key(["/"], "find; Enter, Shift+Enter: next, previous match"),
        key(["f"], "fit"),
        key(["?"], "this help"),
        key(["Esc"], "end a search, back out of a box, leave"),
        element("li", "gw-key-title", "In the stepping bar"),
        key(["←", "→"], "one step back, one step on"),
        key(["Home", "End"], "before the first step, after the last"),
      ]),
      element(
        "a",
        { href: DOCS, target: "_blank", rel: "noopener", ...KEEP_KEYS },
        "Documentation",
      ),
      note,
    ]),
    /** `isStatic`: the graph shows data, which flows the other way. */
    setDirection(direction: DirectionChoice, isStatic: boolean) {
      if (select.value !== direction) select.value = direction;
      if (!shown.isNew(isStatic)) return;
      const what = isStatic ? "Data flows" : "Gradients flow";
      flowing.textContent = what;
      select.title = `${what} this way in the drawing`;
      select.ariaLabel = select.title;
      DIRECTIONS.forEach((_, i) => {
        const way = DIRECTIONS[(i + (isStatic ? 2 : 0)) % 4];
        select.options[i + 1].text = `${ARROW[way]} ${way}`;
      });
    },
  };
}
