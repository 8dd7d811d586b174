import type { Channel } from "../channel";
import { element, KEEP_KEYS } from "../dom/element";
import { Remembered } from "../dom/remembered";
import type { InputRoom } from "../scene/node_words";
import type { SceneNode } from "../scene/scene";
import { boardNumber } from "../text/gradient";
import { oneLine } from "../text/shorten";
import type { DifferenceModel, GraphModel, JsonNumber, KnobModel, Values } from "../wire";
import { inputSpot, type Pin, underSpot, valueSpot } from "./pins";

/** So many px of a drag go through a whole range. */
const WHOLE = 240;
/** What a large key press moves, in steps. */
const LARGE = 10;

/** The most numbers of a tensor in one row. */
const MOST_COLUMNS = 4;

/** The numbers of leaves, which can be dragged, and set with the arrow keys, like a slider. */
export class NumberInputs {
  private readonly made = new Map<string, NumberInput>();
  private readonly grids = new Map<string, HTMLElement>();

  constructor(private readonly send: Channel["send"]) {}

  /** One input per number; those of a tensor together, in its leaf. */
  pins(numberInputs: readonly KnobModel[], graph: GraphModel): Pin[] {
    const nodes = [...new Set(numberInputs.map(({ node }) => node))];
    return nodes.map((node) => {
      const models = numberInputs.filter((numberInput) => numberInput.node === node);
      const { value } = graph.nodes[node];
      const elements = models.map((model) => {
        const key = `${model.name} ${model.at}`;
        const numberInput =
          this.made.get(key) ?? new NumberInput((number) => this.turn(key, number));
        this.made.set(key, numberInput);
        numberInput.update(model, numberAt(value, model.at), models.length > 1);
        return numberInput.element;
      });
      if (models.length === 1) return { node, element: elements[0], spot: valueSpot };
      return { ...this.grid(models, elements), node };
    });
  }

  private grid(models: readonly KnobModel[], elements: readonly HTMLElement[]) {
    const [{ name }] = models;
    const grid =
      this.grids.get(name) ??
      element("div", { class: "gw-number-input-grid", role: "group", "aria-label": oneLine(name) });
    this.grids.set(name, grid);
    // As long as they are the same, the keyboard stays on one of them.
    if (elements.some((one, i) => grid.children[i] !== one)) grid.replaceChildren(...elements);
    const { columns, rows } = roomOf(models);
    grid.style.setProperty("--gw-columns", String(columns));
    return { element: grid, spot: (drawn: SceneNode) => inputSpot(drawn, rows) };
  }

  private turn(key: string, value: number): void {
    const numberInput = this.made.get(key);
    if (!numberInput || numberInput.isBusy || !numberInput.model) return;
    const { node, at } = numberInput.model;
    numberInput.isBusy = true;
    this.send({ kind: "turn", node, at, value }, () => numberInput.done());
  }
}

/** Per leaf that is a tensor of several numbers, the rows and columns of its inputs. */
export function inputRooms(numberInputs: readonly KnobModel[]): Map<number, InputRoom> {
  const found = new Map<number, KnobModel[]>();
  for (const numberInput of numberInputs)
    found.set(numberInput.node, [...(found.get(numberInput.node) ?? []), numberInput]);
  const several = [...found].filter(([, models]) => models.length > 1);
  return new Map(several.map(([node, models]) => [node, roomOf(models)]));
}

function roomOf(models: readonly KnobModel[]): InputRoom {
  const last = models.reduce((most, one) => Math.max(most, (one.at.at(-1) ?? 0) + 1), 1);
  const columns = Math.min(MOST_COLUMNS, last);
  return { columns, rows: Math.ceil(models.length / columns) };
}

/** One number of a tensor of few. */
function numberAt(values: Values | null, at: readonly number[]): JsonNumber {
  const found = at.reduce((inner, place) => (Array.isArray(inner) ? inner[place] : null), values);
  return typeof found === "number" || typeof found === "string" ? found : "?";
}

class NumberInput {
  readonly element = element("div", {
    class: "gw-number-input",
    role: "slider",
    tabindex: 0,
    title: "Drag to another number; or use the arrow keys",
    ...KEEP_KEYS,
  });
  /** Whether Python is busy with the number before. */
  isBusy = false;
  model: KnobModel | null = null;
  private value = 0;
  private readonly told = new Remembered();
  /** What is wanted until Python has taken it, and what was sent last. */
  private wanted: number | null = null;
  private sent: number | null = null;
  private start: { x: number; value: number } | null = null;

  constructor(private readonly turn: (value: number) => void) {
    const { element } = this;
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.stopPropagation();
      event.preventDefault();
      element.focus({ preventScroll: true });
      element.setPointerCapture?.(event.pointerId);
      this.start = { x: event.clientX, value: this.value };
      element.classList.add("is-held");
    });
    element.addEventListener("pointermove", (event) => {
      const { start, model } = this;
      if (!start || !model) return;
      this.ask(start.value + ((event.clientX - start.x) / WHOLE) * (model.max - model.min));
    });
    const end = () => {
      this.start = null;
      element.classList.remove("is-held");
    };
    element.addEventListener("pointerup", end);
    element.addEventListener("pointercancel", end);
    element.addEventListener("keydown", (event) => this.press(event));
  }

  /** `isWritten` where the number stands nowhere else; from "nan" it can be set to what is one. */
  update(model: KnobModel, shown: JsonNumber, isWritten: boolean): void {
    const value = typeof shown === "number" ? shown : model.min;
    this.model = model;
    this.value = this.wanted ?? value;
    if (!this.told.isNew(model, shown, isWritten)) return;
    const { element } = this;
    const place = model.at.length > 0 ? `[${model.at.join(", ")}]` : "";
    element.textContent = isWritten ? boardNumber(shown) : "";
    element.setAttribute("aria-label", oneLine(model.name) + (isWritten ? place : ""));
    element.setAttribute("aria-valuemin", String(model.min));
    element.setAttribute("aria-valuemax", String(model.max));
    element.setAttribute("aria-valuenow", String(value));
    element.setAttribute("aria-valuetext", boardNumber(shown));
    const share = (value - model.min) / (model.max - model.min);
    element.style.setProperty("--gw-at", `${100 * Math.min(1, Math.max(0, share))}%`);
  }

  /** Python has taken a number: the last one that was asked for meanwhile follows. */
  done(): void {
    const { wanted, sent } = this;
    this.isBusy = false;
    this.wanted = null;
    if (wanted !== null && wanted !== sent) this.deliver(wanted);
  }

  private ask(value: number): void {
    const { model } = this;
    if (!model) return;
    const steps = Math.round((value - model.min) / model.step);
    const snapped = Number((model.min + steps * model.step).toPrecision(12));
    const next = Math.min(model.max, Math.max(model.min, snapped));
    if (next === this.value) return;
    this.value = next;
    if (this.isBusy) this.wanted = next;
    else this.deliver(next);
  }

  private deliver(value: number): void {
    this.wanted = this.sent = value;
    this.turn(value);
  }

  private press(event: KeyboardEvent): void {
    const { model, value } = this;
    if (!model || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves: Record<string, number> = {
      ...{ ArrowRight: value + model.step, ArrowUp: value + model.step },
      ...{ ArrowLeft: value - model.step, ArrowDown: value - model.step },
      ...{ PageUp: value + LARGE * model.step, PageDown: value - LARGE * model.step },
      ...{ Home: model.min, End: model.max },
    };
    if (!Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    this.ask(moves[event.key]);
  }
}

/** What finite differences say, under the leaves. */
export function differencePins(differences: readonly DifferenceModel[]): Pin[] {
  return differences.map(({ node, quotient, value, agrees }) => ({
    node,
    spot: underSpot,
    element: element(
      "div",
      {
        class: agrees ? "gw-difference" : "gw-difference is-off",
        title: agrees
          ? "The gradient agrees with the finite difference, as far as that can tell"
          : "The finite difference says something else than the gradient",
      },
      element("span", { "aria-hidden": "true" }, agrees ? "✓" : "≠"),
      element("span", "gw-quotient", oneLine(quotient)),
      element("b", {}, typeof value === "number" ? fourDigits(value) : value),
    ),
  }));
}

function fourDigits(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return boardNumber(value);
  return value.toFixed(4).replace("-", "\u2212");
}
