import type { DirectionChoice } from "../wire";

/** What the reader chose in one widget, and finds in those that follow in the page. */
export const choices: Choices = { help: false, follows: true, direction: "auto" };

interface Choices {
  /** Whether the legend and the keys are shown. */
  help: boolean;
  /** Whether the panel opens by itself while one steps. */
  follows: boolean;
  /** Which way gradients flow where nobody said it in Python. */
  direction: DirectionChoice;
}
