import { element } from "../dom/element";

const SHOWN_MS = 1600;

export class WheelHint {
  readonly element = element(
    "div",
    { class: "gw-wheel-hint", "aria-hidden": "true" },
    `${isMac() ? "⌘" : "Ctrl"} + scroll to zoom, or click the graph first`,
  );
  private timer = 0;

  show(): void {
    this.element.classList.add("is-shown");
    this.stop();
    this.timer = window.setTimeout(() => this.element.classList.remove("is-shown"), SHOWN_MS);
  }

  stop(): void {
    window.clearTimeout(this.timer);
  }
}

function isMac(): boolean {
  return /mac|iphone|ipad/i.test(navigator.userAgent);
}
