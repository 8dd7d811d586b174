import type { ColourBy } from "../colours/colouring";
import type { DirectionChoice } from "../wire";

/** What the reader chose in one widget, and finds in those that follow in the page. */
export const choices: Choices = {
  help: false,
  follows: true,
  direction: "auto",
  colour: null,
  torchNames: false,
  derivatives: false,
};

interface Choices {
  /** Whether the legend and the keys are shown. */
  help: boolean;
  /** Whether the panel opens by itself while one steps. */
  follows: boolean;
  /** Whether local derivatives are written on every edge of a board. */
  derivatives: boolean;
  /** Which way gradients flow where nobody said it in Python. */
  direction: DirectionChoice;
  /** What colours say, where it is known; null for what suits the picture. */
  colour: ColourBy | null;
  /** Whether operations have torch's names rather than a board's. */
  torchNames: boolean;
}
