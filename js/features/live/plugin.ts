import { button, element, KEEP_KEYS, write } from "../../dom/element";
import { PAGE_PARTS, type PageView } from "../../view/page_part";
import { VIEW_PARTS } from "../../view/view_part";
import type { ChangeModel, DetailsModel, NumberInputModel } from "../../wire";
import { Controls, LossCurve } from "./controls";
import { type Arrays, LiveProgram, type Place } from "./live_program";
import { jsonNumber } from "./numbers";
import { PageQuiz } from "./quiz";
import type { ProgramModel } from "./run";
import { fragmentOf, takeFragment } from "./state";

const ELSEWHERE = "The program takes another branch here; run it in Python.";
const RATE = 0.05;
const TOLERANCE = 1e-3;

/** What lecturers and tests call: `window.gradwalk`. */
interface PageInterface {
  /** Set the numbers of a named leaf or constant; resolved when the picture shows them. */
  set(name: string, numbers: readonly number[]): Promise<void>;
  /** The arrays of every named tensor, once the picture shows them. */
  values(): Promise<Record<string, Arrays>>;
}

/** A page whose numbers the reader changes. */
class LivePage {
  readonly element = element("div", "gw-live");
  private readonly controls: Controls;
  private readonly curve = new LossCurve();
  private readonly note = element("p", { class: "gw-live-note", role: "status" });
  private readonly rate = element("input", {
    type: "number",
    step: "any",
    min: 0,
    value: RATE,
    class: "gw-live-number",
    "aria-label": "learning rate",
    ...KEEP_KEYS,
  });
  private readonly quiz: PageQuiz | null;
  private before = new Map<string, number>();
  private updates = 0;
  private frame: number | null = null;
  private checks = false;

  constructor(
    private readonly program: LiveProgram,
    private readonly page: PageView,
    what: "grad" | "value" | null,
  ) {
    this.controls = new Controls(program, (place, value) => this.turn(place, value));
    this.quiz = what === null ? null : new PageQuiz(what, program, page);
    this.before = this.scalars();
    page.channel.change("_number_inputs", this.numberInputs());
    if (takeFragment(program, window.location.hash)) this.show();
    else this.quiz?.show();
    this.element.append(this.controls.element, this.actions(), this.note);
    write(this.note, program.model.note ?? "");
  }

  private actions(): HTMLElement {
    const check = button({ text: "Check gradients", label: "Check gradients" }, () => {
      this.checks = !this.checks;
      check.setAttribute("aria-pressed", String(this.checks));
      this.differences();
    });
    check.setAttribute("aria-pressed", "false");
    return element("div", "gw-live-actions", [
      element("label", "gw-live-rate", ["lr ", this.rate]),
      button({ text: "Update the leaves", label: "Update the leaves: w ← w − lr · w.grad" }, () =>
        this.descend(),
      ),
      check,
      button({ text: "Reset", label: "Reset the numbers" }, () => this.reset()),
      this.curve.element,
    ]);
  }

  private numberInputs(): NumberInputModel[] {
    return this.program.places().flatMap(({ input, at, label }) => {
      const range = input.ranges?.[at];
      if (!input.leaf || !range) return [];
      const [min, max, step] = range;
      const index =
        label
          .match(/\[([\d, ]+)\]$/)?.[1]
          .split(", ")
          .map(Number) ?? [];
      const name = `${this.program.nameOf(input)} in the picture`;
      return { node: input.node, name, at: index, min, max, step };
    });
  }

  /** Set one number, and show it with the next frame. */
  turn({ input, at }: Place, value: number): void {
    const numbers = this.program.read(input);
    numbers[at] = value;
    this.program.write(input, numbers);
    this.curve.clear();
    this.frame ??= window.requestAnimationFrame(() => this.show());
  }

  /** Take a number that was dragged in the picture. */
  turned(node: number, at: readonly number[], value: number): void {
    const label = at.length > 0 ? `[${at.join(", ")}]` : "";
    const place = this.program
      .places()
      .find((one) => one.input.node === node && one.label.endsWith(label));
    if (place) this.turn(place, value);
  }

  /** Run the program, and show its numbers. */
  show(): void {
    if (this.frame !== null) window.cancelAnimationFrame(this.frame);
    this.frame = null;
    const { program, page } = this;
    program.run();
    this.controls.update();
    const { elsewhere } = program;
    const where = elsewhere?.line ? ` The branch is at ${elsewhere.line}.` : "";
    write(this.note, elsewhere ? ELSEWHERE + where : (program.model.note ?? ""));
    this.element.classList.toggle("is-elsewhere", elsewhere !== null);
    this.element.closest(".gradwalk")?.classList.toggle("gw-elsewhere", elsewhere !== null);
    this.keepLink();
    if (elsewhere) return;
    const { channel, saved } = page;
    const now = this.scalars();
    const changes = Array.from(now).flatMap(([name, value]): ChangeModel[] => {
      const was = this.before.get(name);
      return was === undefined || Object.is(was, value)
        ? []
        : [{ name, was: jsonNumber(was), now: jsonNumber(value) }];
    });
    this.before = now;
    this.updates += 1;
    channel.change("_update", { number: this.updates, before: null, words: "", changes });
    if (this.quiz) this.quiz.show();
    else {
      channel.change("_values", program.values());
      if (saved.run) channel.change("run", program.runModel(saved.run));
    }
    page.answer();
    this.differences();
  }

  /** The single numbers of inputs and of the output, by name. */
  private scalars(): Map<string, number> {
    const { program } = this;
    const found = program.inputs.flatMap((input): [string, number][] => {
      const numbers = program.read(input);
      return input.ranges && numbers.length === 1 ? [[program.nameOf(input), numbers[0]]] : [];
    });
    const { loss } = program;
    return new Map(loss === null ? found : [...found, [this.lossName, loss]]);
  }

  private get lossName(): string {
    const { roots, nodes } = this.page.saved.graph;
    return roots[0].name ?? nodes[roots[0].node].name ?? "output";
  }

  private descend(): void {
    const { program } = this;
    const rate = Number(this.rate.value);
    const { loss } = program;
    if (!Number.isFinite(rate) || program.elsewhere) return;
    for (const input of program.inputs) {
      if (!input.leaf || input.grad === null) continue;
      const grad = program.gradient(input.node) ?? [];
      const numbers = program.read(input).map((one, i) => one - rate * grad[i]);
      program.write(input, numbers);
    }
    if (loss !== null && this.curve.element.hidden) {
      this.curve.clear();
      this.curve.add(this.lossName, loss);
    }
    this.show();
    if (program.loss !== null) this.curve.add(this.lossName, program.loss);
  }

  private reset(): void {
    this.program.reset();
    this.curve.clear();
    this.show();
  }

  private differences(): void {
    const { channel } = this.page;
    const found = this.checks && !this.program.elsewhere ? this.program.differences() : [];
    channel.change(
      "_differences",
      found.map(({ node, name, value, gradient }) => ({
        node,
        quotient: `Δ${this.lossName}/Δ${name}`,
        value: jsonNumber(value),
        agrees: Math.abs(value - gradient) <= TOLERANCE * Math.max(1, Math.abs(gradient)),
      })),
    );
  }

  private keepLink(): void {
    const fragment = fragmentOf(this.program);
    try {
      const plain = window.location.pathname + window.location.search;
      window.history.replaceState(null, "", fragment ? `#${fragment}` : plain);
    } catch {
      // A page in a frame without an address keeps no link.
    }
  }

  /** Take an answer of the quiz. */
  answered(message: Parameters<PageQuiz["received"]>[0]): boolean {
    return this.quiz?.received(message) ?? false;
  }

  /** The details of a node, as far as the quiz lets them be seen. */
  details(details: DetailsModel): DetailsModel {
    return this.quiz?.details(details) ?? details;
  }

  /** For lecturers and tests. */
  readonly shared: PageInterface = {
    set: async (name, numbers) => {
      const input = this.program.inputs.find((one) => this.program.nameOf(one) === name);
      if (!input) {
        const names = this.program.inputs.map((one) => this.program.nameOf(one)).join(", ");
        throw new Error(`set() was given ${name}, which is not an input. It is one of ${names}.`);
      }
      const given = Array.from(numbers, Number);
      const count = this.program.read(input).length;
      if (given.length !== count)
        throw new Error(`set() was given ${given.length} numbers for ${name}, which has ${count}.`);
      this.program.write(input, given);
      this.show();
      await shown();
    },
    values: async () => {
      if (this.frame !== null) this.show();
      await shown();
      if (this.program.elsewhere) throw new Error(ELSEWHERE);
      return this.program.arrays();
    },
  };
}

/** Resolved once the page has drawn. */
function shown(): Promise<void> {
  return new Promise((done) => window.requestAnimationFrame(() => window.setTimeout(done)));
}

function read<T>(id: string): T | null {
  const text = document.getElementById(id)?.textContent;
  return text ? (JSON.parse(text) as T) : null;
}

let current: LivePage | null = null;

PAGE_PARTS.push((page) => {
  const model = read<ProgramModel>("gradwalk-program");
  if (!model) return {};
  const program = new LiveProgram(model, page.saved);
  const live = new LivePage(program, page, read<"grad" | "value">("gradwalk-quiz"));
  current = live;
  Object.assign(window, { gradwalk: live.shared });
  return {
    received: (message) => {
      if (message.kind !== "turn") return live.answered(message);
      live.turned(message.node, message.at, message.value);
      return true;
    },
    details: (details) => live.details(program.details(details)),
  };
});

VIEW_PARTS.push(() => (current ? { question: current.element } : {}));
