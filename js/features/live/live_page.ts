import { button, element, KEEP_KEYS, write } from "../../dom/element";
import type { PageView } from "../../view/page_part";
import type { ChangeModel, DetailsModel, NumberInputModel } from "../../wire";
import { Controls } from "./controls";
import { type Arrays, indexOf, type LiveProgram, type Place } from "./live_program";
import { LossCurve } from "./loss_curve";
import { jsonNumber, norm } from "./numbers";
import { PageQuiz } from "./quiz";
import type { InputModel } from "./run";
import { fragmentOf, takeFragment } from "./state";
import { effectOf, sharesOf } from "./what_if";

const ELSEWHERE = "The program takes another branch here; run it in Python.";
const RATE = 0.05;
const TOLERANCE = 1e-3;
/** Ms of rest before the link is written: a browser refuses it to a page that writes at every drag. */
const REST = 250;
/** Finite differences of more numbers wait for the end of a drag. */
const MOST_AT_ONCE = 8;
/** Updates within one frame, and the ms that they may take. */
const MOST_UPDATES = 8;
const FRAME = 6;

/** What lecturers and tests call: `window.gradwalk`. */
interface PageInterface {
  /** Set the numbers of a named leaf or constant; resolved when the picture shows them. */
  set(name: string, numbers: readonly number[]): Promise<void>;
  /** The arrays of every named tensor, once the picture shows them; null where a quiz asks for them. */
  values(): Promise<Record<string, Arrays>>;
}

/** A page whose numbers the reader changes. */
export class LivePage {
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
  private readonly update = button(
    { text: "Update the leaves", label: "Update the leaves: w ← w − lr · w.grad" },
    () => this.descend(1),
  );
  private readonly repeat = toggle("Repeat", "Repeat the update, until it is pressed again", () =>
    this.keepOn(),
  );
  private readonly check = toggle("Check gradients", "Check gradients", () => this.differences());
  private readonly quiz: PageQuiz | null;
  private before = new Map<string, number>();
  private updates = 0;
  private frame: number | null = null;
  private rest: number | undefined;

  constructor(
    private readonly program: LiveProgram,
    private readonly page: PageView,
    what: "grad" | "value" | null,
  ) {
    const { channel } = page;
    this.controls = new Controls(
      program,
      (place, value) => this.turn(place, value),
      (input, numbers) => this.paint(input, numbers),
    );
    this.quiz = what === null ? null : new PageQuiz(what, program, page);
    this.before = this.scalars();
    channel.change("_number_inputs", this.numberInputs());
    if (!this.quiz) this.offerEdits();
    if (takeFragment(program, window.location.hash)) this.show();
    else this.quiz?.show();
    this.element.append(this.controls.element, this.actions(), this.note);
    write(this.note, program.model.note ?? "");
    this.hideActions();
    window.addEventListener("hashchange", () => this.takeLink());
  }

  private actions(): HTMLElement {
    const parts = [
      element("label", "gw-live-rate", ["lr ", this.rate]),
      this.update,
      this.repeat,
      this.check,
      button({ text: "Reset", label: "Reset the numbers" }, () => this.reset()),
      this.curve.element,
    ];
    return element("div", "gw-live-actions", parts);
  }

  /** An update and a difference give away a quiz's answers. */
  private hideActions(): void {
    const isHidden = this.quiz !== null && this.quiz.hidden().size > 0;
    for (const part of [this.rate.parentElement, this.update, this.repeat, this.check])
      part?.toggleAttribute("hidden", isHidden);
  }

  private offerEdits(): void {
    const { channel, saved } = this.page;
    channel.change("edits", []);
    channel.change("_edits_blocked", null);
    channel.on("edits", () => this.answerEdits());
    const share = () =>
      channel.change("_shares", sharesOf(this.program, saved, channel.get("selected")));
    channel.on("selected", share);
    this.answerEdits();
    share();
  }

  private answerEdits(): void {
    const { channel, saved } = this.page;
    channel.change("effect", effectOf(this.program, saved, channel.get("edits") ?? []));
  }

  private numberInputs(): NumberInputModel[] {
    return this.program.places().flatMap(({ input, at }) => {
      const range = input.ranges?.[at];
      if (!input.leaf || !range) return [];
      const [min, max, step] = range;
      const index = indexOf(at, this.program.shapeOf(input.view));
      const name = `${this.program.nameOf(input)} in the picture`;
      return { node: input.node, name, at: index, min, max, step };
    });
  }

  /** Set one number, and show it with the next frame. */
  turn({ input, at }: Place, value: number): void {
    const numbers = this.program.read(input);
    numbers[at] = value;
    this.paint(input, numbers);
  }

  private paint(input: InputModel, numbers: readonly number[]): void {
    this.program.write(input, numbers);
    this.curve.clear();
    this.frame ??= window.requestAnimationFrame(() => this.show());
  }

  /** Take a number that was dragged in the picture. */
  turned(node: number, at: readonly number[], value: number): void {
    const place = this.program
      .places()
      .find(
        ({ input, at: own }) =>
          input.node === node && `${indexOf(own, this.program.shapeOf(input.view))}` === `${at}`,
      );
    if (place) this.turn(place, value);
  }

  /** Run the program, and show its numbers. */
  show(): void {
    if (this.frame !== null) window.cancelAnimationFrame(this.frame);
    this.frame = null;
    const { program } = this;
    program.run();
    this.controls.update();
    const { elsewhere } = program;
    const where = elsewhere?.line ? ` The branch is at ${elsewhere.line}.` : "";
    write(this.note, elsewhere ? ELSEWHERE + where : (program.model.note ?? ""));
    this.element.classList.toggle("is-elsewhere", elsewhere !== null);
    this.element.closest(".gradwalk")?.classList.toggle("gw-elsewhere", elsewhere !== null);
    window.clearTimeout(this.rest);
    this.rest = window.setTimeout(() => this.rested(), REST);
    this.showNumbers();
    this.differences(program.checkedCount <= MOST_AT_ONCE);
  }

  private showNumbers(): void {
    const { program, page } = this;
    if (program.elsewhere) return;
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
      this.answerEdits();
      channel.change("_shares", sharesOf(program, saved, channel.get("selected")));
    }
    page.answer();
  }

  private rested(): void {
    const fragment = fragmentOf(this.program);
    try {
      const plain = window.location.pathname + window.location.search;
      window.history.replaceState(null, "", fragment ? `#${fragment}` : plain);
    } catch {
      // A page in a frame without an address keeps no link.
    }
    this.differences();
  }

  /** Take the numbers of a link that was followed within the page. */
  private takeLink(): void {
    this.program.reset();
    takeFragment(this.program, window.location.hash);
    this.curve.clear();
    this.show();
  }

  /** The single numbers of inputs and of the output that no quiz asks for, by name. */
  private scalars(): Map<string, number> {
    const { program, quiz } = this;
    const found = program.inputs.flatMap((input): [string, number][] => {
      const numbers = program.read(input);
      return input.ranges && numbers.length === 1 ? [[program.nameOf(input), numbers[0]]] : [];
    });
    const { loss } = program;
    const [{ node }] = this.page.saved.graph.roots;
    const isHidden = quiz?.what === "value" && quiz.hidden().has(node);
    return new Map(loss === null || isHidden ? found : [...found, [this.program.lossName, loss]]);
  }

  /** Take steps of gradient descent, as many as fit into a frame. Returns whether it can go on. */
  private descend(most: number): boolean {
    const { program, curve } = this;
    const rate = Number(this.rate.value);
    if (!Number.isFinite(rate) || program.elsewhere) return false;
    if (program.loss !== null && curve.isEmpty) curve.add(this.program.lossName, program.loss);
    const until = performance.now() + FRAME;
    for (let i = 0; i < most && (i === 0 || performance.now() < until); i++) {
      for (const input of program.inputs) {
        const grad = input.leaf && input.grad !== null ? program.gradient(input.node) : null;
        if (grad)
          program.write(
            input,
            program.read(input).map((one, at) => one - rate * grad[at]),
          );
      }
      program.run();
      if (program.elsewhere) break;
      if (program.loss !== null) curve.add(this.program.lossName, program.loss);
    }
    this.show();
    return !program.elsewhere && (program.loss === null || Number.isFinite(program.loss));
  }

  private keepOn(): void {
    const step = () => {
      if (!isOn(this.repeat)) return;
      if (this.descend(MOST_UPDATES)) window.requestAnimationFrame(step);
      else press(this.repeat, false);
    };
    step();
  }

  private reset(): void {
    press(this.repeat, false);
    this.program.reset();
    this.curve.clear();
    this.page.channel.change("edits", this.quiz ? undefined : []);
    this.show();
  }

  /** Show finite differences beside the gradients, or none: they are wanted, and there is time. */
  private differences(isNow = true): void {
    const { program } = this;
    const isShown = isOn(this.check) && isNow && !program.elsewhere;
    const found = isShown ? program.differences() : [];
    const { channel } = this.page;
    if (found.length === 0 && !channel.get("_differences")?.length) return;
    channel.change(
      "_differences",
      found.map(({ node, name, found: numbers, gradient }) => {
        const isOne = numbers.length === 1;
        const quotient = `Δ${this.program.lossName}/Δ${name}`;
        const agrees = numbers.every(
          (one, i) => Math.abs(one - gradient[i]) <= TOLERANCE * Math.max(1, Math.abs(gradient[i])),
        );
        return {
          node,
          quotient: isOne ? quotient : `\u2016${quotient}\u2016`,
          value: jsonNumber(isOne ? numbers[0] : norm(numbers)),
          agrees,
        };
      }),
    );
  }

  /** Take an answer of the quiz. */
  answered(message: Parameters<PageQuiz["received"]>[0]): boolean {
    const isTaken = this.quiz?.received(message) ?? false;
    this.hideActions();
    return isTaken;
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
      this.curve.clear();
      this.show();
      await shown();
    },
    values: async () => {
      if (this.frame !== null) this.show();
      await shown();
      if (this.program.elsewhere) throw new Error(ELSEWHERE);
      return this.program.arrays(this.quiz?.what, this.quiz?.hidden());
    },
  };
}

/** Resolved once the page has drawn. */
function shown(): Promise<void> {
  return new Promise((done) => window.requestAnimationFrame(() => window.setTimeout(done)));
}

function toggle(text: string, label: string, changed: () => void): HTMLButtonElement {
  const made = button({ text, label, pressed: false }, () => {
    press(made, !isOn(made));
    changed();
  });
  return made;
}

function isOn(one: HTMLButtonElement): boolean {
  return one.getAttribute("aria-pressed") === "true";
}

function press(one: HTMLButtonElement, isPressed: boolean): void {
  one.setAttribute("aria-pressed", String(isPressed));
}
