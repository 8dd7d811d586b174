import { element } from "../dom/element";
import type { Box } from "../scene/grid";
import type { Size } from "../scene/views";
import type { Description } from "./describe";

const GAP = 10;
const DELAY_MS = 220;

export class Tooltip {
  readonly element = element("div", { class: "gw-tooltip", role: "tooltip", hidden: true });
  private timer = 0;

  /** Show it after a moment beside a box given in px of the stage. */
  show({ title, lines }: Description, beside: () => Box, stage: () => Size): void {
    this.hide();
    this.timer = window.setTimeout(() => {
      this.element.replaceChildren(
        element("div", "gw-tooltip-title", title),
        ...lines.map((line) => element("div", "gw-tooltip-line", line)),
      );
      this.element.hidden = false;
      this.place(beside(), stage());
    }, DELAY_MS);
  }

  hide(): void {
    window.clearTimeout(this.timer);
    this.element.hidden = true;
  }

  get visible(): boolean {
    return !this.element.hidden;
  }

  private place(box: Box, { width, height }: Size): void {
    const { offsetWidth: w, offsetHeight: h } = this.element;
    const within = (low: number, size: number, whole: number) =>
      Math.max(6, Math.min(whole - size - 6, low));
    const beside = [box.right + GAP, box.left - GAP - w].find((x) => x >= 6 && x + w <= width - 6);
    // An edge's tooltip has its end nodes beside it.
    const isPlace = box.left === box.right;
    const x = isPlace ? undefined : beside;
    const below = box.bottom + GAP + h > height ? box.top - GAP - h : box.bottom + GAP;
    const y = x === undefined ? below : (box.top + box.bottom) / 2 - h / 2;
    this.element.style.transform = `translate(${Math.round(within(x ?? (box.left + box.right) / 2 - w / 2, w, width))}px, ${Math.round(within(y, h, height))}px)`;
  }
}

const SHOWN_MS = 1600;

export class WheelHint {
  readonly element = element(
    "div",
    { class: "gw-wheel-hint", "aria-hidden": "true" },
    `${isMac() ? "⌘" : "Ctrl"} + scroll to zoom`,
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
