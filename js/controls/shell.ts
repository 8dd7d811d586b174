import type { Channel } from "../channel";
import { Cleanup, element, faultBox, messageOf } from "../dom/element";
import { followTheme } from "../dom/theme";
import { rootElement } from "../theme/sheet";

/** The frame, the legend, the notes and the faults; shared by views of one graph and of several. */
export class Shell<T extends { _fault: string | null }> {
  readonly root: HTMLElement;
  readonly cleanup = new Cleanup();
  readonly faults = element("div", "gw-faults");
  readonly legend = element("div", { class: "gw-legend", role: "list", "aria-label": "Legend" });
  readonly note = element("span", "gw-note-text");
  readonly status = element("div", { class: "gw-status", role: "status" }, this.note);
  private readonly inside = element("div", "gw-frame");
  private resized: (full: boolean) => void = () => {};

  constructor(
    private readonly channel: Pick<Channel<T, never>, "get" | "on">,
    kind = "gradwalk",
  ) {
    this.root = rootElement(kind, this.inside);
  }

  fill(host: HTMLElement, ...parts: HTMLElement[]): void {
    this.inside.append(...parts);
    host.append(this.root);
    this.cleanup.add(() => this.root.remove());
    this.cleanup.add(followTheme(this.root));
  }

  on(trait: keyof T, changed: () => void): void {
    this.cleanup.add(this.channel.on(trait, changed));
  }

  /** Wrap a part of the work: its errors are shown, and nothing else fails with it. */
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

  /** Show Python's error in place of the previous message. */
  readonly showPythonFault = this.guarded(() => {
    const fault = this.channel.get("_fault");
    this.faults.replaceChildren(...(fault ? [faultBox(fault)] : []));
  });

  /** Fill the screen, or the window if the page may not use the screen; or go back. */
  toggleFull(): void {
    const { root } = this;
    if (this.leaveFull()) return;
    const asked = root.requestFullscreen?.() ?? Promise.reject();
    asked.catch(() => this.setFull(true));
  }

  /** Leave full screen; false if it was off. */
  leaveFull(): boolean {
    if (!this.root.classList.contains("is-full")) return false;
    if (this.hasScreen) document.exitFullscreen();
    else this.setFull(false);
    return true;
  }

  /** Follow full screen, which the browser can also leave. `resized` runs when the widget's size changes. */
  followFull(resized: (full: boolean) => void): void {
    this.resized = resized;
    this.cleanup.listen(this.root, "fullscreenchange", () => this.setFull(this.hasScreen));
  }

  private get hasScreen(): boolean {
    return (this.root.getRootNode() as Document | ShadowRoot).fullscreenElement === this.root;
  }

  private setFull(full: boolean): void {
    this.root.classList.toggle("is-full", full);
    this.resized(full);
  }
}
