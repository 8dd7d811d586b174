import type { DirectionChoice } from "../wire";

/** The reader's choices, shared by all widgets of the page. */
export const choices: Choices = {
  follows: true,
  direction: "auto",
  colour: null,
  torchNames: false,
  derivatives: false,
  widths: false,
};

interface Choices {
  /** Whether the panel opens by itself while stepping. */
  follows: boolean;
  /** Whether local derivatives are written on every edge of a board. */
  derivatives: boolean;
  /** The direction of gradients if Python sets none. */
  direction: DirectionChoice;
  /** The colouring, if its data is known; null for the picture's default. */
  colour: string | null;
  /** Whether lines are as wide as the norms of their gradients are large. */
  widths: boolean;
  /** Whether operations have torch's names instead of a board's signs. */
  torchNames: boolean;
}
