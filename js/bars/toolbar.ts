import { button, element, KEEP_KEYS } from "../dom/element";
import { ICONS } from "../dom/icons";
import { DIRECTIONS, type Direction } from "../layout/direction";
import type { SearchBox } from "./searchbox";

interface ToolbarEvents {
  direction(direction: Direction): void;
  zoom(factor: number): void;
  fit(): void;
  toggleConstants(): void;
  toggleLegend(): void;
  togglePanel(): void;
}

const ARROW: Record<Direction, string> = { down: "↓", right: "→", up: "↑", left: "←" };

interface Toolbar {
  element: HTMLElement;
  /** `isStatic`: the words are about data, which flows the other way. */
  setDirection(direction: Direction, isStatic?: boolean): void;
  setScale(scale: number): void;
  /** Whether they are drawn; null where the graph has none. */
  setConstants(shown: boolean | null): void;
  setLegend(open: boolean): void;
  setPanel(open: boolean): void;
}

/** `saving` is the menu that saves the picture, where there is one. */
export function createToolbar(
  searchBox: SearchBox,
  events: ToolbarEvents,
  saving: HTMLElement | null = null,
): Toolbar {
  const directions = element(
    "select",
    { class: "gw-select", ...KEEP_KEYS },
    ...DIRECTIONS.map((value) => element("option", { value })),
  );
  const flowing = element("span", {});
  directions.addEventListener("change", () => events.direction(directions.value as Direction));
  const scale = element("span", { class: "gw-scale", title: "Zoom" }, "100%");
  const constants = button(
    {
      label: "Constants and cuts",
      title: "Show constants, and where gradient was cut",
      icon: ICONS.scissors,
      pressed: true,
    },
    () => events.toggleConstants(),
  );
  const legend = button(
    { label: "Legend", icon: ICONS.legend, pressed: true },
    events.toggleLegend,
  );
  const panel = button(
    { label: "Details panel", icon: ICONS.panel, pressed: true },
    events.togglePanel,
  );
  constants.hidden = true;
  return {
    element: element(
      "div",
      { class: "gw-toolbar", role: "toolbar", "aria-label": "Graph tools" },
      searchBox.element,
      element("span", "gw-spacer"),
      element("label", "gw-direction", flowing, directions),
      element(
        "span",
        "gw-group",
        button({ label: "Zoom out", title: "Zoom out (−)", icon: ICONS.minus }, () =>
          events.zoom(1 / 1.4),
        ),
        scale,
        button({ label: "Zoom in", title: "Zoom in (+)", icon: ICONS.plus }, () =>
          events.zoom(1.4),
        ),
        button(
          { label: "Fit the graph", title: "Fit the whole graph (f)", icon: ICONS.fit },
          events.fit,
        ),
      ),
      element("span", "gw-group", constants, saving, legend, panel),
    ),
    setDirection(direction, isStatic = false) {
      const what = isStatic ? "Data flows" : "Gradients flow";
      flowing.textContent = what;
      directions.title = `${what} this way in the drawing`;
      directions.ariaLabel = directions.title;
      for (const option of directions.options) {
        const way = DIRECTIONS[(option.index + (isStatic ? 2 : 0)) % 4];
        option.text = `${ARROW[way]} ${way}`;
      }
      directions.value = direction;
    },
    setScale(value) {
      scale.textContent =
        value < 0.095 ? `${(value * 100).toFixed(1)}%` : `${Math.round(value * 100)}%`;
    },
    setConstants(shown) {
      constants.hidden = shown === null;
      constants.setAttribute("aria-pressed", String(shown === true));
    },
    setLegend(open) {
      legend.setAttribute("aria-pressed", String(open));
    },
    setPanel(open) {
      panel.setAttribute("aria-pressed", String(open));
    },
  };
}
