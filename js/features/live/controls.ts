import { element, KEEP_KEYS, write } from "../../dom/element";
import { listsBy } from "../../maps";
import { oneLine } from "../../text/shorten";
import type { LiveProgram, Place } from "./live_program";
import type { InputModel } from "./run";

/** Px of a drag on a number across its whole range. */
const WHOLE = 240;
/** Px before a press on a number counts as a drag. */
const LEAST = 3;

type Changed = (place: Place, value: number) => void;

/** A number of an input: a field to type in and to drag on, and a slider for a single one. */
class NumberControl {
  readonly field: HTMLInputElement;
  readonly slider: HTMLInputElement | null;

  constructor(
    private readonly place: Place,
    isSingle: boolean,
    private readonly changed: Changed,
  ) {
    const [min, max, step] = this.range;
    this.field = element("input", {
      type: "number",
      step: "any",
      class: "gw-live-number",
      "aria-label": oneLine(place.label),
      title: "Type a number, or drag to another one",
      ...KEEP_KEYS,
    });
    // The field beside it has the name; the slider is the same number for a mouse or a finger.
    this.slider = isSingle
      ? element("input", {
          type: "range",
          min,
          max,
          step,
          class: "gw-live-slider",
          tabindex: -1,
          "aria-hidden": "true",
        })
      : null;
    this.field.addEventListener("input", () => this.typed());
    this.field.addEventListener("keydown", (event) => this.press(event));
    this.field.addEventListener("pointerdown", (event) => this.follow(event));
    this.slider?.addEventListener("input", () => this.set(Number(this.slider?.value)));
  }

  private get range(): [number, number, number] {
    return this.place.input.ranges?.[this.place.at] ?? [-1, 1, 0.01];
  }

  show(value: number): void {
    const { field, slider } = this;
    if (slider) {
      const [min, max] = this.range;
      slider.min = String(Math.min(min, value));
      slider.max = String(Math.max(max, value));
      slider.value = String(value);
    }
    if (Number(field.value) === value && field.value !== "") return;
    field.value = Number.isFinite(value) ? String(Number(value.toPrecision(6))) : "";
    field.placeholder = Number.isFinite(value) ? "" : String(value);
  }

  private typed(): void {
    const value = Number(this.field.value);
    if (this.field.value.trim() !== "" && Number.isFinite(value)) this.changed(this.place, value);
  }

  private set(value: number): void {
    this.field.value = String(Number(value.toPrecision(6)));
    this.changed(this.place, value);
  }

  /** Arrow keys step as finely as the slider does. */
  private press(event: KeyboardEvent): void {
    const sign = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
    event.stopPropagation();
    if (sign === 0) return;
    event.preventDefault();
    const [, , step] = this.range;
    this.set(Number(this.field.value) + sign * step * (event.shiftKey ? 10 : 1));
  }

  private follow(down: PointerEvent): void {
    if (down.button !== 0) return;
    const { field } = this;
    const start = Number(field.value);
    const [min, max, step] = this.range;
    let isDragged = false;
    const move = ({ clientX }: PointerEvent) => {
      const by = clientX - down.clientX;
      isDragged ||= Math.abs(by) > LEAST;
      if (!isDragged) return;
      field.classList.add("is-held");
      const to = start + (by / WHOLE) * (max - min);
      this.set(Math.round(to / step) * step);
    };
    const end = () => {
      field.classList.remove("is-held");
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  }
}

/** The controls of all inputs: one with few numbers in a row, a matrix as a grid. */
export class Controls {
  readonly element = element("div", "gw-live-controls");
  private readonly shown: [Place, NumberControl][] = [];

  constructor(
    private readonly program: LiveProgram,
    changed: Changed,
  ) {
    for (const [input, places] of listsBy(program.places(), (place) => place.input)) {
      const isSingle = places.length === 1;
      const made = places.map((place) => {
        const control = new NumberControl(place, isSingle, changed);
        this.shown.push([place, control]);
        return control;
      });
      this.element.append(this.group(input, made));
    }
    this.update();
  }

  private group(input: InputModel, made: readonly NumberControl[]): HTMLElement {
    const columns = this.program.shapeOf(input.view).at(-1) ?? 1;
    const fields = element(
      "div",
      "gw-live-fields",
      made.map(({ field }) => field),
    );
    fields.style.setProperty("--gw-columns", String(Math.min(4, columns)));
    return element("div", `gw-live-input${input.leaf ? "" : " is-constant"}`, [
      element("span", { class: "gw-live-name", "aria-hidden": "true" }, this.nameOf(input)),
      ...made.flatMap(({ slider }) => slider ?? []),
      fields,
    ]);
  }

  private nameOf(input: InputModel): string {
    return oneLine(this.program.nameOf(input));
  }

  /** Show the numbers of now. */
  update(): void {
    const numbers = new Map(this.program.inputs.map((one) => [one, this.program.read(one)]));
    for (const [{ input, at }, control] of this.shown)
      control.show(Number((numbers.get(input)?.[at] ?? 0).toPrecision(7)));
  }
}

/** A curve of the loss over the steps of the reader. */
export class LossCurve {
  readonly element = element("span", { class: "gw-live-loss", hidden: true });
  private readonly path: SVGPolylineElement;
  private readonly words = element("span", "gw-live-loss-now");
  private losses: number[] = [];

  constructor() {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 100 24");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    this.path = document.createElementNS(space, "polyline");
    svg.append(this.path);
    this.element.append(svg, this.words);
  }

  clear(): void {
    this.losses = [];
    this.element.hidden = true;
  }

  add(name: string, loss: number): void {
    this.losses.push(loss);
    const { losses } = this;
    this.element.hidden = losses.length < 2;
    const finite = losses.filter(Number.isFinite);
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    const scale = (value: number) => 22 - 20 * (high > low ? (value - low) / (high - low) : 0);
    const wide = 100 / Math.max(1, losses.length - 1);
    const points = losses.flatMap((value, i) =>
      Number.isFinite(value) ? `${(i * wide).toFixed(1)},${scale(value).toFixed(1)}` : [],
    );
    this.path.setAttribute("points", points.join(" "));
    const [first, last] = [losses[0], losses[losses.length - 1]].map((one) => one.toPrecision(4));
    const steps = losses.length - 1;
    write(this.words, `${name} ${first} → ${last} in ${steps} ${steps === 1 ? "step" : "steps"}`);
  }
}
