import { Pins } from "../../interact/pins";
import { VIEW_PARTS } from "../../view/view_part";
import { Quiz } from "./quiz";

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
