import type { Channel, Message } from "../../channel";
import { element, focusIn, KEEP_KEYS, linkButton, write } from "../../dom/element";
import { gradSpot, type Pin, Pins, underSpot, valueSpot } from "../../interact/pins";
import { valueAt } from "../../maps";
import type { Place } from "../../scene/grid";
import { oneLine } from "../../text/shorten";
import { VIEW_PARTS } from "../../view/view_part";
import type { QuestionModel, QuizModel, ScoreModel } from "../../wire";

/** Ask the reader at the nodes: a field per number, or a click on each node in turn. */
class Quiz {
  readonly element = element("div", { class: "gw-quiz", hidden: true });
  private readonly status = element("b", { role: "status" });
  private readonly title = element("span");
  private readonly fields = new Map<number, Field>();
  private model: QuizModel | null = null;
  /** The last question that the reader answered. */
  private answered: number | null = null;
  private hint = element("p", { class: "gw-hint-text", role: "status" });

  constructor(private readonly send: Channel["send"]) {
    const all = linkButton("Reveal all", () => this.send({ kind: "reveal", node: null }));
    this.element.append(this.title, this.status, all, this.hint);
  }

  /** Handle a click on a node; false if the quiz asks for none. */
  click(node: number | null): boolean {
    const { model } = this;
    if (node === null || model?.what !== "order" || !model.questions.some(isOpen)) return false;
    this.send({ kind: "answer", node, text: null });
    return true;
  }

  update(model: QuizModel | null, score: ScoreModel | null): void {
    const before = this.model;
    this.model = model;
    this.element.hidden = model === null;
    if (model === null || before?.what !== model.what) this.fields.clear();
    if (model === null || score === null) return;
    const { what } = model;
    this.ask();
    const shown = score.revealed > 0 ? `, ${score.revealed} revealed` : "";
    this.status.textContent = `${score.right} of ${score.of} right${shown}`;
    const hinted = what === "order" ? lastHint(before, model) : null;
    if (hinted !== null || what !== "order") this.hint.textContent = hinted ?? "";
    else if (score.right !== before?.questions.filter((q) => q.state === "right").length)
      this.hint.textContent = "";
  }

  /** Ask in words what the focused field, or the first open one, asks. */
  private ask(): void {
    const { what, questions = [] } = this.model ?? {};
    const open = questions.filter(isOpen);
    const asked = open.find(({ node }) => this.fields.get(node)?.hasFocus) ?? open[0];
    this.title.textContent =
      what === "order"
        ? "Quiz: click the nodes in the order in which backward runs them, or press Enter on them."
        : asked
          ? `Quiz: what is the ${what} of ${oneLine(asked.name)}?`
          : "Quiz";
  }

  pins(): Pin[] {
    const { model } = this;
    if (!model) return [];
    if (model.what === "order")
      return model.questions.flatMap((question) => (isOpen(question) ? [] : [orderPin(question)]));
    const spot = model.what === "grad" ? gradSpot : valueSpot;
    return model.questions.flatMap((question) => this.questionPins(question, model.what, spot));
  }

  private questionPins(question: QuestionModel, what: QuizModel["what"], spot: Pin["spot"]): Pin[] {
    const { node } = question;
    const field = this.fields.get(node);
    if (!isOpen(question)) {
      this.fields.delete(node);
      // Move the focus to the next question.
      if (field?.hasFocus) queueMicrotask(() => this.nextField()?.focus());
      return [];
    }
    const send = (message: Message) => {
      this.answered = node;
      this.send(message);
    };
    const found = valueAt(
      this.fields,
      node,
      () => new Field(question, what, send, () => this.ask()),
    );
    found.update(question);
    const input: Pin = {
      node,
      element: found.element,
      spot(drawn) {
        const place = spot(drawn);
        const isTall = place.height > 40;
        return isTall ? { ...place, y: place.y + place.height - 34, height: 30 } : place;
      },
    };
    // One hint at a time, at the last answer, so that it covers no other question for long.
    const isElsewhere = this.answered !== null && this.answered !== node;
    return question.hint === null || isElsewhere
      ? [input]
      : [input, { node, element: found.bubble, spot: bubbleSpot, mayGoAbove: true }];
  }

  private nextField(): Field | undefined {
    const next = this.model?.questions.find(isOpen);
    return next && this.fields.get(next.node);
  }
}

function bubbleSpot(node: Parameters<typeof underSpot>[0]): Place {
  const under = underSpot(node);
  return { x: -106, y: under.y + 8, width: 212, height: 40 };
}

function isOpen({ state }: QuestionModel): boolean {
  return state === "open" || state === "wrong";
}

/** The hint for the last wrong click. */
function lastHint(before: QuizModel | null, now: QuizModel): string | null {
  const old = new Map(before?.questions.map((question) => [question.node, question.hint]));
  const texts = now.questions.find(({ node, hint }) => hint !== null && hint !== old.get(node));
  return texts?.hint ?? null;
}

function orderPin({ node, answer, state }: QuestionModel): Pin {
  return {
    node,
    element: element("span", `gw-order is-${state}`, answer),
    spot: ({ shape }) => ({
      x: shape.width / 2 - 14,
      y: -shape.height / 2 - 12,
      width: 22,
      height: 22,
    }),
  };
}

let fields = 0;

/** A question's field and its hint. */
class Field {
  readonly element: HTMLInputElement;
  readonly bubble: HTMLElement;
  private readonly words = element("p", { class: "gw-hint-text", role: "status" });

  constructor(
    { node, name }: QuestionModel,
    what: QuizModel["what"],
    send: Channel["send"],
    focused: () => void,
  ) {
    const id = `gw-hint-${++fields}`;
    this.words.id = id;
    this.element = element("input", {
      class: "gw-guess",
      type: "text",
      inputmode: "text",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "?",
      "aria-label": `${what} of ${oneLine(name)}`,
      "aria-describedby": id,
      ...KEEP_KEYS,
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      send({ kind: "answer", node, text: this.element.value });
    });
    this.element.addEventListener("focus", focused);
    const again = linkButton("Try again", () => this.focus());
    const reveal = linkButton("Reveal", () => send({ kind: "reveal", node }), {
      label: `Reveal ${name}`,
    });
    this.bubble = element("div", "gw-hint", [this.words, element("div", {}, [again, " ", reveal])]);
  }

  get hasFocus(): boolean {
    return focusIn(this.element) !== null;
  }

  focus(): void {
    this.element.focus({ preventScroll: true });
    this.element.select();
  }

  update({ hint, state }: QuestionModel): void {
    this.element.classList.toggle("is-wrong", state === "wrong");
    write(this.words, hint ?? "");
  }
}

VIEW_PARTS.push(({ channel, drawing }) => {
  const pins = new Pins(drawing);
  const quiz = new Quiz((...sent) => channel.send(...sent));
  return {
    question: quiz.element,
    traits: ["_quiz", "score"],
    update() {
      quiz.update(channel.get("_quiz") ?? null, channel.get("score") ?? null);
      pins.show(quiz.pins());
    },
    moved: () => pins.place(),
    clicked: (node) => quiz.click(node),
  };
});
