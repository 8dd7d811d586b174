import { button, element, linkButton, say, write } from "../dom/element";
import { ICONS } from "../dom/icons";
import { rove } from "../dom/roving";
import { formatCount } from "../text/number";
import type { SearchBox } from "./searchbox";

interface ToolbarEvents {
  zoom(factor: number): void;
  fit(): void;
  toggleConstants(): void;
  /** Absent if the view draws no local derivatives. */
  toggleDerivatives?: () => void;
  toggleFull(): void;
  toggleHelp(): void;
  /** Leave entered boxes until `depth` are left. */
  leaveTo?(depth: number): void;
  /** Absent without a panel. */
  togglePanel?: () => void;
}

const ZOOM = 1.4;

/** The number of steps in which the row hides tools; the style sheet says which. */
const TIGHTEST = 5;

interface ToolbarParts {
  search: SearchBox;
  saving?: HTMLElement;
  view?: HTMLElement;
  colours?: HTMLElement;
  diagnose?: HTMLElement;
  /** The tools of features. */
  tools?: readonly HTMLElement[];
}

export class Toolbar {
  readonly element: HTMLElement;
  private readonly crumbs = element("div", {
    class: "gw-crumbs",
    role: "group",
    "aria-label": "What is shown",
  });
  private readonly drawn = element("span", "gw-drawn");
  private readonly counts = element("span", "gw-counts");
  private readonly scale = element("span", { class: "gw-scale", title: "Zoom" }, "100 %");
  private readonly toggles: Record<Tool, HTMLButtonElement>;
  private readonly rove: () => void;
  private name = "";
  private way: readonly string[] = [];

  constructor(
    private readonly events: ToolbarEvents,
    { search, saving, view, colours, diagnose, tools = [] }: ToolbarParts,
  ) {
    this.toggles = toggles(events);
    const { constants, derivatives, panel, help } = this.toggles;
    const full = button(
      { label: "Full screen", title: "Full screen (Esc leaves it)", icon: ICONS.full },
      events.toggleFull,
    );
    this.element = element(
      "div",
      { class: "gw-toolbar", role: "toolbar", "aria-label": "Graph tools" },
      [
        this.crumbs,
        element("span", "gw-crumb-facts gw-at-work", [this.counts, this.drawn]),
        element("span", "gw-spacer"),
        ...tools.map(atWork),
        ...(colours ? [atWork(colours)] : []),
        element("span", "gw-group gw-at-work", [diagnose, view, derivatives, constants]),
        element("span", "gw-group gw-group-zoom gw-at-work", zoomTools(events, this.scale)),
        element("span", "gw-group gw-at-work", [saving, panel, help]),
        element("span", "gw-group gw-group-find", [search.element, full, moreTools()]),
      ],
    );
    this.rove = rove(this.element);
  }

  /** Name the graph and its visible size. User text. */
  setCrumb(text: string, size: string, title: string): void {
    if (text !== this.name || this.crumbs.childElementCount === 0) {
      this.name = text;
      this.showWay();
    }
    write(this.counts, size);
    say(this.counts, "title", title);
  }

  setDrawn(count: number | null): void {
    this.drawn.textContent = count === null ? "" : `, ${formatCount(count)} drawn`;
  }

  /** Show the entered boxes, outermost first. User text. */
  setBreadcrumbs(boxes: readonly string[]): void {
    this.way = boxes;
    this.showWay();
  }

  setScale(value: number): void {
    const percent = value < 0.095 ? (value * 100).toFixed(1) : Math.round(value * 100);
    this.scale.textContent = `${percent}\u00a0%`;
  }

  /** Show whether a tool is on; null where it does not apply. */
  set(tool: Tool, shown: boolean | null): void {
    const { [tool]: toggle } = this.toggles;
    toggle.hidden = shown === null;
    toggle.setAttribute("aria-pressed", String(shown === true));
  }

  /** Hide tools until the rest fits. */
  tighten(): void {
    const { element: bar } = this;
    const levels = Array.from({ length: TIGHTEST }, (_, level) => `is-tight-${level + 1}`);
    bar.classList.remove(...levels);
    for (const level of levels) {
      if (bar.scrollWidth <= bar.clientWidth) break;
      bar.classList.add(level);
    }
    this.rove();
  }

  /** The graph, then the entered boxes; all but the last are links. */
  private showWay(): void {
    const { name, way, events } = this;
    const parts = [name, ...way].map((text, depth) => {
      if (depth === way.length) return element("b", "gw-crumb", text);
      return linkButton(text, () => events.leaveTo?.(depth), {
        title: `Back out to ${text}`,
        class: "gw-crumb gw-link",
      });
    });
    this.crumbs.replaceChildren(
      ...parts.flatMap((part, i) => (i === 0 ? [part] : [element("span", {}, "›"), part])),
    );
  }
}

/** Mark what appears with the pointer or the focus in the widget. */
function atWork(tool: HTMLElement): HTMLElement {
  tool.classList.add("gw-at-work");
  return tool;
}

/** The button that keeps all tools in sight, also without a pointer. */
function moreTools(): HTMLButtonElement {
  const more = button({ label: "More tools", icon: ICONS.more }, () => {
    const isAsked = more.closest(".gradwalk")?.classList.toggle("is-asked") ?? false;
    more.setAttribute("aria-pressed", String(isAsked));
  });
  more.setAttribute("aria-pressed", "false");
  return more;
}

type Tool = "constants" | "derivatives" | "help" | "panel";

/** The toggle buttons; hidden until they apply. */
function toggles(events: ToolbarEvents): Record<Tool, HTMLButtonElement> {
  const made = {
    constants: button(
      {
        label: "Constants and cuts",
        title: "Show constants, and where gradient was cut",
        icon: ICONS.dashed,
      },
      () => events.toggleConstants(),
    ),
    derivatives: button(
      {
        label: "Local derivatives",
        title: "Write the incoming gradient times the local derivative on every edge",
        text: "∂",
        class: "gw-button gw-derivative",
      },
      () => events.toggleDerivatives?.(),
    ),
    help: button(
      { label: "Legend and keys", title: "Legend and keys (?)", icon: ICONS.help },
      events.toggleHelp,
    ),
    panel: button({ label: "Tables", icon: ICONS.panel }, () => events.togglePanel?.()),
  };
  for (const toggle of Object.values(made)) toggle.hidden = true;
  return made;
}

function zoomTools({ fit, zoom }: ToolbarEvents, scale: HTMLElement): HTMLElement[] {
  return [
    button({ label: "Fit the graph", title: "Fit the whole graph (f)", icon: ICONS.fit }, fit),
    button({ label: "Zoom out", title: "Zoom out (−)", icon: ICONS.minus }, () => zoom(1 / ZOOM)),
    scale,
    button({ label: "Zoom in", title: "Zoom in (+)", icon: ICONS.plus }, () => zoom(ZOOM)),
  ];
}
