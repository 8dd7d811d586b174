import { element, KEEP_KEYS, onDrag } from "./element";

interface HandleOptions {
  label: string;
  /** The axis of movement. */
  axis: "x" | "y";
  class: string;
  read(): { now: number; least: number; most: number };
  set(size: number): void;
  /** Whether dragging right or down enlarges it. */
  grows: boolean;
}

const STEP = 24;

/** A bar that resizes something by drag or arrow keys. A double click restores the default (NaN). */
export function resizeHandle(options: HandleOptions) {
  const { axis, label, grows } = options;
  const bar = element("div", {
    class: `gw-handle ${options.class}`,
    role: "separator",
    tabindex: 0,
    "aria-label": label,
    title: `${label}: drag, or focus and use the arrow keys; double-click resets`,
    "aria-orientation": axis === "x" ? "vertical" : "horizontal",
    ...KEEP_KEYS,
  });
  const update = () => {
    const { now, least, most } = options.read();
    bar.setAttribute("aria-valuenow", String(Math.round(now)));
    bar.setAttribute("aria-valuemin", String(Math.round(least)));
    bar.setAttribute("aria-valuemax", String(Math.round(most)));
  };
  const set = (size: number) => {
    const { least, most } = options.read();
    options.set(Number.isNaN(size) ? size : Math.max(least, Math.min(most, size)));
    update();
  };
  const position = (event: PointerEvent) => (axis === "x" ? event.clientX : event.clientY);
  const moveFrom = (event: PointerEvent) => {
    const [at, size] = [position(event), options.read().now];
    bar.classList.add("is-dragged");
    event.preventDefault();
    bar.focus({ preventScroll: true });
    return (moved: PointerEvent) => set(size + (position(moved) - at) * (grows ? 1 : -1));
  };
  onDrag(bar, moveFrom, () => bar.classList.remove("is-dragged"));
  bar.addEventListener("dblclick", () => set(Number.NaN));
  bar.addEventListener("keydown", (event) => {
    const [less, more] = axis === "x" ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    const sign = event.key === more ? 1 : event.key === less ? -1 : 0;
    if (sign === 0) return;
    event.preventDefault();
    set(options.read().now + sign * (grows ? 1 : -1) * STEP);
  });
  return { element: bar, update };
}
