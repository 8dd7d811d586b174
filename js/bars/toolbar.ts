import { button, element } from "../dom/element";
import { ICONS } from "../dom/icons";
import type { Direction } from "../layout/direction";
import type { SearchBox } from "./searchbox";

interface ToolbarEvents {
  zoom(factor: number): void;
  fit(): void;
  toggleConstants(): void;
  /** Left out where no local derivatives are drawn. */
  toggleDerivatives?: () => void;
  toggleFull(): void;
  toggleHelp(): void;
  /** Left out where there is nothing beside the picture to be hidden. */
  togglePanel?: () => void;
}

interface Toolbar {
  element: HTMLElement;
  /** What is drawn, and how much of it. User text. */
  setCrumb(name: string, size: string, title: string): void;
  /** Which way gradients flow; null where the picture says it itself. */
  setFlow(direction: Direction | null): void;
  setScale(scale: number): void;
  /** Whether they are drawn; null where the graph has none. */
  setConstants(shown: boolean | null): void;
  /** Whether they are written on every edge; null where the graph is too large for that. */
  setDerivatives(shown: boolean | null): void;
  setHelp(open: boolean): void;
  /** Puts what there is no room for behind a button. */
  tighten(): void;
  setPanel(open: boolean): void;
}

const ZOOM = 1.4;

/** Which way values flow, and which way gradients. */
const FLOW = { left: "→←", right: "←→", down: "↑↓", up: "↓↑" };

/** The one row of tools. `view` is what else can be chosen there, `saving` the menu that saves the picture. */
export function createToolbar(
  searchBox: SearchBox,
  events: ToolbarEvents,
  saving: HTMLElement | null = null,
  view: HTMLElement | null = null,
): Toolbar {
  const name = element("b", "gw-crumb");
  const counts = element("span", "gw-counts");
  const flow = element("span", "gw-flow");
  const scale = element("span", { class: "gw-scale", title: "Zoom" }, "100 %");
  const constants = button(
    {
      label: "Constants and cuts",
      title: "Show constants, and where gradient was cut",
      icon: ICONS.scissors,
      pressed: true,
    },
    () => events.toggleConstants(),
  );
  const help = button(
    { label: "Legend and keys", title: "Legend and keys (?)", icon: ICONS.help, pressed: false },
    events.toggleHelp,
  );
  const { togglePanel } = events;
  const panel =
    togglePanel && button({ label: "Tables", icon: ICONS.panel, pressed: true }, togglePanel);
  constants.hidden = true;
  const derivatives = button(
    {
      label: "Local derivatives",
      title: "Write on every edge what arrived times the local derivative",
      icon: ICONS.derivative,
      pressed: false,
    },
    () => events.toggleDerivatives?.(),
  );
  derivatives.hidden = true;
  const bar = element(
    "div",
    { class: "gw-toolbar", role: "toolbar", "aria-label": "Graph tools" },
    name,
    counts,
    flow,
    element("span", "gw-spacer"),
    view,
    searchBox.element,
    element(
      "span",
      "gw-group",
      derivatives,
      constants,
      button(
        { label: "Fit the graph", title: "Fit the whole graph (f)", icon: ICONS.fit },
        events.fit,
      ),
      button({ label: "Zoom out", title: "Zoom out (−)", icon: ICONS.minus }, () =>
        events.zoom(1 / ZOOM),
      ),
      scale,
      button({ label: "Zoom in", title: "Zoom in (+)", icon: ICONS.plus }, () => events.zoom(ZOOM)),
    ),
    element(
      "span",
      "gw-group",
      button(
        { label: "Full screen", title: "Full screen (Esc leaves it)", icon: ICONS.full },
        events.toggleFull,
      ),
      saving,
      panel,
      help,
    ),
  );
  return {
    element: bar,
    setCrumb(text, size, title) {
      name.textContent = text;
      counts.textContent = size;
      counts.title = title;
    },
    setFlow(direction) {
      flow.hidden = direction === null;
      const [value, grad] = direction ? FLOW[direction] : "";
      flow.replaceChildren(`value ${value} `, element("b", {}, `${grad} grad`));
    },
    setScale(value) {
      const percent = value < 0.095 ? (value * 100).toFixed(1) : Math.round(value * 100);
      scale.textContent = `${percent}\u00a0%`;
    },
    setConstants(shown) {
      constants.hidden = shown === null;
      constants.setAttribute("aria-pressed", String(shown === true));
    },
    setDerivatives(shown) {
      derivatives.hidden = shown === null;
      derivatives.setAttribute("aria-pressed", String(shown === true));
    },
    setHelp(open) {
      help.setAttribute("aria-pressed", String(open));
    },
    tighten() {
      bar.classList.remove("is-tight");
      bar.classList.toggle("is-tight", bar.scrollWidth > bar.clientWidth);
    },
    setPanel(open) {
      panel?.setAttribute("aria-pressed", String(open));
    },
  };
}
