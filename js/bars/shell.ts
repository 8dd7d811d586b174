import type { Channel } from "../channel";
import { Cleanup, element } from "../dom/element";
import { faultBox, messageOf } from "../dom/fault";
import { followTheme } from "../dom/theme";
import { rootElement } from "../looks/sheet";

/** What a view of one graph and a view of several have in common: the frame, the legend, and where notes and faults stand. */
export class Shell<T extends { _fault: string | null }> {
  readonly root: HTMLElement;
  readonly cleanup = new Cleanup();
  readonly faults = element("div", "gw-faults");
  readonly legend = element("div", { class: "gw-legend", role: "list", "aria-label": "Legend" });
  readonly note = element("span", "gw-note-text");
  readonly status = element("div", { class: "gw-status", role: "status" }, this.note);
  private readonly inside = element("div", "gw-frame");

  constructor(
    private readonly channel: Pick<Channel<T, never>, "get" | "on">,
    kind = "gradwalk",
  ) {
    this.root = rootElement(kind, this.inside);
  }

  /** Puts the parts below each other into the host. */
  fill(host: HTMLElement, ...parts: HTMLElement[]): void {
    this.inside.append(...parts);
    host.append(this.root);
    this.cleanup.add(() => this.root.remove());
    this.cleanup.add(followTheme(this.root));
  }

  /** Does something whenever the trait changes. */
  on(trait: keyof T, changed: () => void): void {
    this.cleanup.add(this.channel.on(trait, changed));
  }

  /** What does a part of the work and, if that fails, says so: nothing else goes along with it. */
  guarded(part: () => void): () => void {
    return () => {
      try {
        part();
      } catch (error) {
        this.showFault(error);
      }
    };
  }

  showFault(error: unknown): void {
    this.faults.replaceChildren(faultBox(messageOf(error)));
  }

  /** What Python says is wrong, in place of whatever was said before. */
  readonly showPythonFault = this.guarded(() => {
    const fault = this.channel.get("_fault");
    this.faults.replaceChildren(...(fault ? [faultBox(fault)] : []));
  });

  /** Opens or closes the legend; tells whether it is open then. */
  toggleLegend(): boolean {
    this.legend.hidden = !this.legend.hidden;
    return !this.legend.hidden;
  }
}
