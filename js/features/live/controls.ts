import { element, KEEP_KEYS, onDrag, slidTo } from "../../dom/element";
import { listsBy } from "../../maps";
import { oneLine } from "../../text/shorten";
import { ImageControl, imageSize } from "./image";
import type { LiveProgram, Place } from "./live_program";
import type { InputModel } from "./run";

/** Px of a drag on a number across its whole range. */
const WHOLE = 240;
/** Px before a press on a number counts as a drag. */
const LEAST = 3;
/** Digits that a field without the focus shows. */
const DIGITS = 4;
/** A typed number is rounded to float32. */
const ROUNDING = 1e-6;

type Changed = (place: Place, value: number) => void;

/** A number of an input: a field to type in and to drag on, and a slider for a single one. */
class NumberControl {
  readonly field: HTMLInputElement;
  readonly slider: HTMLInputElement | null;
  private value = 0;

  constructor(
    private readonly place: Place,
    isSingle: boolean,
    private readonly changed: Changed,
  ) {
    const [min, max, step] = this.range;
    this.field = element("input", {
      type: "text",
      inputmode: "text",
      autocomplete: "off",
      spellcheck: "false",
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
    const { field } = this;
    field.addEventListener("input", () => this.typed());
    field.addEventListener("focus", () => this.write(String(this.value)));
    field.addEventListener("blur", () => this.write(short(this.value)));
    field.addEventListener("keydown", (event) => this.press(event));
    onDrag(
      field,
      (event) => this.follow(event),
      () => field.classList.remove("is-held"),
    );
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
    const typed = field.matches(":focus") ? readNumber(field.value) : null;
    const isTyped = typed !== null && Math.abs(typed - value) <= ROUNDING * Math.abs(value);
    if (Object.is(this.value, value) && field.value !== "") return;
    this.value = value;
    if (!isTyped) this.write(field.matches(":focus") ? String(value) : short(value));
  }

  private write(text: string): void {
    this.field.value = text;
    this.field.removeAttribute("aria-invalid");
  }

  private typed(): void {
    const value = readNumber(this.field.value);
    this.field.setAttribute("aria-invalid", String(value === null));
    if (value === null) return;
    this.value = value;
    this.changed(this.place, value);
  }

  private set(value: number): void {
    const rounded = Number(value.toPrecision(6));
    this.value = rounded;
    this.write(String(rounded));
    this.changed(this.place, rounded);
  }

  /** Arrow keys step as finely as the slider does. */
  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isAcross = !["ArrowUp", "ArrowDown", "PageUp", "PageDown"].includes(event.key);
    const [min, max, step] = this.range;
    const to = isAcross ? null : slidTo(event.key, this.value, { min, max, step });
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    this.set(to);
  }

  private follow(down: PointerEvent): (event: PointerEvent) => void {
    const { field, value } = this;
    const [min, max, step] = this.range;
    let isDragged = false;
    return ({ clientX }) => {
      const by = clientX - down.clientX;
      isDragged ||= Math.abs(by) > LEAST;
      if (!isDragged) return;
      field.classList.add("is-held");
      this.set(Math.round((value + (by / WHOLE) * (max - min)) / step) * step);
    };
  }
}

/** A number as a reader types it, with any minus; null for what is none. */
function readNumber(text: string): number | null {
  const plain = text.trim().replaceAll("\u2212", "-");
  const value = Number(plain);
  return plain !== "" && Number.isFinite(value) ? value : null;
}

function short(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  return String(Number(value.toPrecision(DIGITS))).replace("-", "\u2212");
}

/** The controls of all inputs: a slider for one number, a grid for a matrix, a canvas for an image. */
export class Controls {
  readonly element = element("div", "gw-live-controls");
  private readonly shown: [Place, NumberControl][] = [];
  private readonly images: [InputModel, ImageControl][] = [];

  constructor(
    private readonly program: LiveProgram,
    changed: Changed,
    painted: (input: InputModel, numbers: readonly number[]) => void,
  ) {
    const places = listsBy(program.places(), (place) => place.input);
    for (const input of program.inputs) {
      const size = imageSize(program.shapeOf(input.view));
      const own = places.get(input) ?? [];
      if (own.length > 0) this.addNumbers(input, own, changed);
      else if (size && program.hasName(input)) this.addImage(input, size, painted);
    }
    this.update();
  }

  private addNumbers(input: InputModel, places: readonly Place[], changed: Changed): void {
    const isSingle = places.length === 1;
    const made = places.map((place) => {
      const control = new NumberControl(place, isSingle, changed);
      this.shown.push([place, control]);
      return control;
    });
    const columns = this.program.shapeOf(input.view).at(-1) ?? 1;
    const fields = element(
      "div",
      "gw-live-fields",
      made.map(({ field }) => field),
    );
    fields.style.setProperty("--gw-columns", String(Math.min(4, columns)));
    const sliders = made.flatMap(({ slider }) => slider ?? []);
    this.element.append(this.group(input, isSingle ? " is-single" : "", [...sliders, fields]));
  }

  private addImage(
    input: InputModel,
    size: [height: number, width: number],
    painted: (input: InputModel, numbers: readonly number[]) => void,
  ): void {
    const name = this.nameOf(input);
    const image = new ImageControl(name, size, (numbers) => painted(input, numbers));
    this.images.push([input, image]);
    this.element.append(this.group(input, " is-image", [image.element]));
  }

  private group(input: InputModel, kind: string, parts: HTMLElement[]): HTMLElement {
    const name = this.nameOf(input);
    const what = input.leaf ? "" : " is-constant";
    const several = kind === "" ? { role: "group", "aria-label": name } : {};
    return element("div", { class: `gw-live-input${kind}${what}`, ...several }, [
      element("span", { class: "gw-live-name", "aria-hidden": "true" }, name),
      ...parts,
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
    for (const [input, image] of this.images) image.show(numbers.get(input) ?? []);
  }
}
