import { DIRECTIONS, type Direction } from "../drawing/direction";
import { button, element, KEEP_KEYS } from "./dom";
import { ICONS } from "./icons";
import type { SearchBox } from "./searchbox";

export interface ToolbarEvents {
  direction(direction: Direction): void;
  zoom(factor: number): void;
  fit(): void;
  toggleConstants?(): void;
  toggleLegend(): void;
  togglePanel(): void;
}

const ARROW: Record<Direction, string> = { down: "↓", right: "→", up: "↑", left: "←" };

export interface Toolbar {
  element: HTMLElement;
  setDirection(direction: Direction): void;
  setScale(scale: number): void;
  /** Whether they are drawn; null where the graph has none. */
  setConstants(shown: boolean | null): void;
  setLegend(open: boolean): void;
  setPanel(open: boolean): void;
}

export function createToolbar(searchBox: SearchBox, events: ToolbarEvents): Toolbar {
  const directions = element(
    "select",
    {
      class: "gw-select",
      "aria-label": "Direction in which gradients flow",
      title: "Direction in which gradients flow in the drawing",
      ...KEEP_KEYS,
    },
    ...DIRECTIONS.map((direction) =>
      element("option", { value: direction }, `${ARROW[direction]} ${direction}`),
    ),
  );
  directions.addEventListener("change", () => events.direction(directions.value as Direction));
  const scale = element("span", { class: "gw-scale", title: "Zoom" }, "100%");
  const constants = button(
    {
      label: "Constants and cuts",
      title: "Show constants, and where gradient was cut",
      icon: ICONS.scissors,
      pressed: true,
    },
    () => events.toggleConstants?.(),
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
      element("span", { class: "gw-spacer" }),
      element(
        "label",
        { class: "gw-direction" },
        element("span", {}, "Gradients flow"),
        directions,
      ),
      element(
        "span",
        { class: "gw-group" },
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
      element("span", { class: "gw-group" }, constants, legend, panel),
    ),
    setDirection(direction) {
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
