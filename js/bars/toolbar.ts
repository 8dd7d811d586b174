import { button, element, KEEP_KEYS, say, write } from "../dom/element";
import { ICONS } from "../dom/icons";
import type { Direction } from "../layout/direction";
import { formatCount } from "../text/number";
import type { SearchBox } from "./searchbox";

interface ToolbarEvents {
  zoom(factor: number): void;
  fit(): void;
  toggleConstants(): void;
  /** Left out where no local derivatives are drawn. */
  toggleDerivatives?: () => void;
  toggleFull(): void;
  toggleHelp(): void;
  /** Back out of the boxes that were gone into, until so many are left. */
  leaveTo?(depth: number): void;
  /** Left out where there is nothing beside the picture to be hidden. */
  togglePanel?: () => void;
}

interface Toolbar {
  element: HTMLElement;
  /** What is drawn, and how much of it. User text. */
  setCrumb(name: string, size: string, title: string): void;
  /** How many boxes and nodes of it are drawn; null where it is all of them. */
  setDrawn(count: number | null): void;
  /** The boxes that were gone into, the outermost first. User text. */
  setWay(boxes: readonly string[]): void;
  /** Which way gradients flow; null where the picture says it itself. */
  setFlow(direction: Direction | null): void;
  setScale(scale: number): void;
  /** Whether they are drawn; null where the graph has none. */
  setConstants(shown: boolean | null): void;
  /** Whether they are written on every edge; null where the graph is too large for that. */
  setDerivatives(shown: boolean | null): void;
  setHelp(open: boolean): void;
  /** Leaves out, step by step, what there is no room for. */
  tighten(): void;
  setPanel(open: boolean): void;
}

type Choice = "view" | "colours" | "ranks";

const ZOOM = 1.4;

/** Which way values flow, and which way gradients. */
const FLOW = { left: "→←", right: "←→", down: "↑↓", up: "↓↑" };

/** The widths at which more and more is left out of the row, from all of it on; the style sheet says what. */
const TIGHTEST = 5;

/**
 * The one row of tools. `saving` is the menu that saves the picture, `view` the one that says how it is shown,
 * `colours` the choice of what its colours say and `ranks` that of the rank that is shown.
 */
export function createToolbar(
  searchBox: SearchBox,
  events: ToolbarEvents,
  saving: HTMLElement | null = null,
  { view = null, colours = null, ranks = null }: Partial<Record<Choice, HTMLElement | null>> = {},
): Toolbar {
  const crumbs = element("div", {
    class: "gw-crumbs",
    role: "group",
    "aria-label": "What is shown",
  });
  const drawn = element("span", "gw-drawn");
  let name = "";
  let way: readonly string[] = [];
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
    crumbs,
    element("span", "gw-crumb-facts", counts, drawn),
    flow,
    element("span", "gw-spacer"),
    ranks,
    colours,
    element("span", "gw-group gw-group-find", searchBox.element, view, derivatives, constants),
    element(
      "span",
      "gw-group gw-group-zoom",
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
  /** The graph, and the boxes that one is in; all but the last lead back out. */
  function showWay(): void {
    const parts = [name, ...way].map((text, depth) => {
      if (depth === way.length) return element("b", "gw-crumb", text);
      const link = element(
        "button",
        { type: "button", class: "gw-crumb gw-link", title: `Back out to ${text}`, ...KEEP_KEYS },
        text,
      );
      link.addEventListener("click", () => events.leaveTo?.(depth));
      return link;
    });
    crumbs.replaceChildren(
      ...parts.flatMap((part, i) => (i === 0 ? [part] : [element("span", {}, "›"), part])),
    );
  }

  return {
    element: bar,
    setCrumb(text, size, title) {
      if (text !== name || crumbs.childElementCount === 0) {
        name = text;
        showWay();
      }
      write(counts, size);
      say(counts, "title", title);
    },
    setDrawn(count) {
      drawn.textContent = count === null ? "" : `, ${formatCount(count)} drawn`;
    },
    setWay(boxes) {
      way = boxes;
      showWay();
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
      const levels = Array.from({ length: TIGHTEST }, (_, level) => `is-tight-${level + 1}`);
      bar.classList.remove(...levels);
      for (const level of levels) {
        if (bar.scrollWidth <= bar.clientWidth) return;
        bar.classList.add(level);
      }
    },
    setPanel(open) {
      panel?.setAttribute("aria-pressed", String(open));
    },
  };
}
