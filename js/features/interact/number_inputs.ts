import type { Channel } from "../../channel";
import { element, KEEP_KEYS, onDrag, slidTo } from "../../dom/element";
import { Remembered } from "../../dom/remembered";
import { inputSpot, type Pin, Pins, underSpot, valueSpot } from "../../interact/pins";
import { listsBy, valueAt } from "../../maps";
import type { SceneNode } from "../../scene/scene";
import { boardNumber } from "../../text/gradient";
import { oneLine } from "../../text/shorten";
import { inputRoom } from "../../view/live_graph";
import { VIEW_PARTS } from "../../view/view_part";
import type { DifferenceModel, GraphModel, JsonNumber, NumberInputModel, Values } from "../../wire";

/** Px of a drag across the whole range. */
const WHOLE = 240;

/** Inputs for leaves' numbers, which work like a slider: by drag and arrow keys. */
class NumberInputs {
  private readonly made = new Map<string, NumberInput>();
  private readonly grids = new Map<string, HTMLElement>();

  constructor(private readonly send: Channel["send"]) {}

  /** One input per number; a tensor's inputs share its leaf. */
  pins(numberInputs: readonly NumberInputModel[], graph: GraphModel): Pin[] {
    return Array.from(listsBy(numberInputs, ({ node }) => node)).map(([node, models]) => {
      const { value } = graph.nodes[node];
      const elements = models.map((model) => {
        const key = `${model.name} ${model.at}`;
        const numberInput = valueAt(
          this.made,
          key,
          () => new NumberInput((number) => this.turn(key, number)),
        );
        numberInput.update(model, numberAt(value, model.at), models.length > 1);
        return numberInput.element;
      });
      if (models.length === 1) return { node, element: elements[0], spot: valueSpot };
      return { ...this.grid(models, elements), node };
    });
  }

  private grid(models: readonly NumberInputModel[], elements: readonly HTMLElement[]) {
    const [{ name }] = models;
    const grid = valueAt(this.grids, name, () =>
      element("div", { class: "gw-number-input-grid", role: "group", "aria-label": oneLine(name) }),
    );
    // Keep unchanged elements, so that one of them keeps the focus.
    if (elements.some((one, i) => grid.children[i] !== one)) grid.replaceChildren(...elements);
    const { columns, rows } = inputRoom(models);
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

/** One number of a small tensor. */
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
  /** Whether Python is still processing a number. */
  isBusy = false;
  model: NumberInputModel | null = null;
  private value = 0;
  private readonly shownInputs = new Remembered();
  /** The next number to send, and the last one sent. */
  private wanted: number | null = null;
  private sent: number | null = null;

  constructor(private readonly turn: (value: number) => void) {
    const { element } = this;
    const moveFrom = (event: PointerEvent) => {
      event.stopPropagation();
      event.preventDefault();
      element.focus({ preventScroll: true });
      element.classList.add("is-held");
      const { value } = this;
      return ({ clientX }: PointerEvent) => {
        const { max, min } = this.model ?? { max: 0, min: 0 };
        this.ask(value + ((clientX - event.clientX) / WHOLE) * (max - min));
      };
    };
    onDrag(element, moveFrom, () => element.classList.remove("is-held"));
    element.addEventListener("keydown", (event) => this.press(event));
  }

  /** `isWritten`: the number appears only here. From "nan" the input can be set to a number. */
  update(model: NumberInputModel, shown: JsonNumber, isWritten: boolean): void {
    const value = typeof shown === "number" ? shown : model.min;
    this.model = model;
    this.value = this.wanted ?? value;
    if (!this.shownInputs.isNew(model, shown, isWritten)) return;
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

  /** Python has processed a number; send the newest one. */
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
    const to = slidTo(event.key, value, model);
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    this.ask(to);
  }
}

/** The finite differences under the leaves. */
function differencePins(differences: readonly DifferenceModel[]): Pin[] {
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
      [
        element("span", { "aria-hidden": "true" }, agrees ? "✓" : "≠"),
        element("span", "gw-quotient", oneLine(quotient)),
        element("b", {}, typeof value === "number" ? fourDigits(value) : value),
      ],
    ),
  }));
}

function fourDigits(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return boardNumber(value);
  return value.toFixed(4).replace("-", "\u2212");
}

/** Numbers to set and finite differences, at the nodes; not while a quiz asks for them. */
VIEW_PARTS.push(({ channel, drawing, graph }) => {
  const pins = new Pins(drawing);
  const numberInputs = new NumberInputs((...sent) => channel.send(...sent));
  return {
    traits: ["_number_inputs", "_differences", "_quiz"],
    update() {
      const shown = graph();
      const inputs = channel.get("_quiz") ? [] : (channel.get("_number_inputs") ?? []);
      if (!shown) return;
      pins.show([
        ...numberInputs.pins(inputs, shown),
        ...differencePins(channel.get("_differences") ?? []),
      ]);
    },
    moved: () => pins.place(),
  };
});
