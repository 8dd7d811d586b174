import type { Message } from "../../channel";
import { listsBy } from "../../maps";
import { boardNumber } from "../../text/gradient";
import { oneLine } from "../../text/shorten";
import type { PageView } from "../../view/page_part";
import type { DetailsModel, QuestionModel, RunModel, Values } from "../../wire";
import type { LiveProgram } from "./live_program";

/** As Python's quiz marks: relative to the number, or rounded to three digits or more. */
const TOLERANCES: Readonly<Record<string, number>> = { "torch.float64": 1e-7 };
const TOLERANCE = 1.3e-6;
const NOTHING = 1e-7;
const LEAST_DIGITS = 3;
const HIDDEN = "It is hidden while the quiz is on.";

const NAMED: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  "+inf": Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
};

/** A number as a reader types it; null for what is none. */
export function readNumber(text: string): number | null {
  const plain = text.trim().replace(/[\u2212\u2013]/g, "-");
  const named = NAMED[plain.toLowerCase().replace("infinity", "inf").replace("∞", "inf")];
  if (named !== undefined) return named;
  const [above, below, ...rest] = plain.split("/").map((part) => part.trim());
  const number = (part: string) =>
    /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(part) ? Number(part) : Number.NaN;
  if (rest.length > 0) return null;
  const found = below === undefined ? number(above) : number(above) / number(below);
  return Number.isFinite(found) ? found : null;
}

/** Whether an answer is right: as exact as the type, or rounded to three digits or more. */
export function isNear(answer: number, truth: number, text: string, dtype: string | null): boolean {
  if (!Number.isFinite(truth)) return Object.is(answer, truth);
  const tolerance = TOLERANCES[dtype ?? ""] ?? TOLERANCE;
  if (Math.abs(answer - truth) <= tolerance * Math.abs(truth)) return true;
  const nothing = NOTHING * Math.min(1, tolerance / TOLERANCE);
  if ((answer === 0 || truth === 0) && Math.abs(answer - truth) <= nothing) return true;
  const digits = text.includes("/") ? "" : text.toLowerCase().split("e")[0];
  const count = digits.replace(/\D/g, "").replace(/^0+/, "").length;
  if (count < LEAST_DIGITS || truth === 0) return false;
  // A number halfway between two is rounded to either.
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(truth))) - count + 1);
  return Math.abs(answer - truth) <= 0.5 * unit * (1 + 1e-9);
}

interface Question extends QuestionModel {
  tries: number;
}

/** Asks for the numbers of nodes, and marks the answers with the numbers of now. */
export class PageQuiz {
  private questions: Question[] = [];

  constructor(
    readonly what: "grad" | "value",
    private readonly program: LiveProgram,
    private readonly page: PageView,
  ) {}

  /** Ask about every node with one number: operations first asked for values, all for gradients. */
  private asked(): Question[] {
    const { nodes, roots } = this.page.saved.graph;
    const given = new Set(this.what === "grad" ? roots.map(({ node }) => node) : []);
    return nodes.flatMap(({ id, kind, label, sign, name }): Question[] => {
      const isAsked = this.what === "grad" ? kind === "leaf" || kind === "op" : kind === "op";
      if (!isAsked || given.has(id) || this.truth(id) === null) return [];
      const called = name ?? sign ?? label;
      return [{ node: id, name: called, state: "open", hint: null, answer: null, tries: 0 }];
    });
  }

  /** Show the questions, and everything that gives no answer away. */
  show(): void {
    const { channel, saved } = this.page;
    if (this.questions.length === 0) this.questions = this.asked();
    const hidden = this.hidden();
    for (const one of this.questions)
      if (one.answer !== null) one.answer = boardNumber(this.truth(one.node) ?? 0);
    const values = this.program.values();
    const isValue = this.what === "value";
    channel.change(
      "_values",
      isValue ? values.map((one, node) => (hidden.has(node) ? null : one)) : values,
    );
    const run = saved.run && this.program.runModel(saved.run);
    channel.change("run", run && (isValue ? run : this.masked(run, hidden)));
    channel.change("_quiz", {
      what: this.what,
      questions: this.questions.map(({ tries, ...question }) => question),
    });
    channel.change("score", {
      right: this.count("right"),
      wrong: this.questions.reduce((sum, { tries }) => sum + tries, 0),
      revealed: this.count("revealed"),
      of: this.questions.length,
    });
    this.page.answer();
  }

  private count(state: QuestionModel["state"]): number {
    return this.questions.filter((one) => one.state === state).length;
  }

  /** The nodes whose number is not told yet. */
  hidden(): ReadonlySet<number> {
    const open = this.questions.filter(({ state }) => state === "open" || state === "wrong");
    return new Set(open.map(({ node }) => node));
  }

  /** The details of a node without the numbers that tell an answer. */
  details(details: DetailsModel): DetailsModel {
    if (this.hidden().size === 0) return details;
    const { value, value_note } = details;
    const isValue = this.what === "value";
    return {
      ...details,
      value: isValue ? null : value,
      value_note: isValue ? HIDDEN : value_note,
      saved: [],
      saved_count: 0,
      grad: null,
      grad_output: null,
      grad_input: null,
      grad_note: { grad: HIDDEN, grad_output: HIDDEN, grad_input: HIDDEN },
      contributions: null,
      formula: details.formula.map((one) => ({ ...one, numbers: null })),
      chain: null,
      explained: null,
    };
  }

  private truth(node: number): number | null {
    const numbers = this.what === "grad" ? this.program.gradient(node) : this.program.valueAt(node);
    return numbers?.length === 1 ? numbers[0] : null;
  }

  received(message: Message): boolean {
    if (message.kind === "answer") this.answer(message.node, message.text ?? "");
    else if (message.kind === "reveal") this.reveal(message.node);
    // The findings name numbers.
    else return message.kind === "diagnose" && this.hidden().size > 0;
    this.show();
    return true;
  }

  private answer(node: number, text: string): void {
    const question = this.questions.find((one) => one.node === node);
    const truth = this.truth(node);
    if (!question || truth === null || question.state === "right") return;
    const given = readNumber(text);
    if (given === null) {
      question.hint = `${oneLine(text)} is not a number.`;
      return;
    }
    const { dtypes } = this.page.saved;
    const dtype = dtypes.names[dtypes.nodes[node]] ?? null;
    const isRight = isNear(given, truth, text, dtype && `torch.${dtype.replace("torch.", "")}`);
    question.state = isRight ? "right" : "wrong";
    question.hint = isRight ? null : this.hint(question);
    question.answer = isRight ? boardNumber(truth) : null;
    if (!isRight) question.tries += 1;
  }

  private reveal(node: number | null): void {
    for (const question of this.questions) {
      const isAsked = node === null || question.node === node;
      if (!isAsked || question.state === "right") continue;
      question.state = "revealed";
      question.hint = null;
      question.answer = boardNumber(this.truth(question.node) ?? 0);
    }
  }

  /** After a wrong answer: the nodes that the number comes from. */
  private hint({ node }: Question): string {
    const { nodes, edges } = this.page.saved.graph;
    const gradient = edges.filter(({ kind }) => kind === "gradient");
    const near =
      this.what === "grad"
        ? gradient.filter(({ target }) => target === node).map(({ source }) => source)
        : gradient.filter(({ source }) => source === node).map(({ target }) => target);
    const names = [...listsBy(near, (id) => id).keys()].map((id) =>
      oneLine(nodes[id].name ?? nodes[id].sign ?? nodes[id].label),
    );
    if (names.length === 0) return "It is where backward starts: the derivative by itself.";
    const from = names.join(" and ");
    return this.what === "grad"
      ? `It is the gradient of ${from} times the local derivative, summed over all uses.`
      : `It is ${oneLine(nodes[node].sign ?? nodes[node].label)} of ${from}.`;
  }

  /** The pass without the gradients that are asked for. */
  private masked(run: RunModel, hidden: ReadonlySet<number>): RunModel {
    const { edges } = this.page.saved.graph;
    const shows = run.edges.map((edge) => !hidden.has(edges[edge].target));
    const only = <T>(all: readonly T[]): (T | null)[] =>
      all.map((one, i) => (shows[i] ? one : null));
    const nothing: { values: Values | null; norm: null } = { values: null, norm: null };
    return {
      ...run,
      values: only(run.values),
      norms: only(run.norms),
      arrived: run.arrived.map((one) => (hidden.has(one.node) ? { ...one, ...nothing } : one)),
      grads: run.grads.filter(({ node }) => !hidden.has(node)),
    };
  }
}
