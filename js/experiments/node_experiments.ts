import type { Channel } from "../channel";
import type { Drawing } from "../interact/drawing";
import type { GraphModel } from "../wire";
import { differencePins, NumberInputs } from "./number_inputs";
import { Pins } from "./pins";
import { Quiz } from "./quiz";

/** The experiments at nodes: numbers to set, finite differences, a quiz. */
export class NodeExperiments {
  private readonly pins = new Pins();
  private readonly numberInputs: NumberInputs;
  private readonly quiz: Quiz;

  constructor(
    private readonly drawing: Drawing,
    private readonly channel: Pick<Channel, "get" | "send">,
  ) {
    const send: Channel["send"] = (...sent) => channel.send(...sent);
    this.numberInputs = new NumberInputs(send);
    this.quiz = new Quiz(send);
    drawing.element.append(this.pins.element);
  }

  /** The quiz' question, beside the picture. */
  get question(): HTMLElement {
    return this.quiz.element;
  }

  update(graph: GraphModel | null): void {
    const { channel, quiz } = this;
    if (!graph) return;
    quiz.update(channel.get("_quiz") ?? null, channel.get("score") ?? null);
    const numberInputs = channel.get("_quiz") ? [] : (channel.get("_knobs") ?? []);
    this.pins.show([
      ...this.numberInputs.pins(numberInputs, graph),
      ...differencePins(channel.get("_differences") ?? []),
      ...quiz.pins(),
    ]);
    this.place();
  }

  place(): void {
    this.pins.place(this.drawing.scene, this.drawing.viewport.view);
  }

  /** Whether a click on a node is an answer. */
  takesClick(node: number | null): boolean {
    return this.quiz.click(node);
  }
}
