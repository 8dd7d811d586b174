import type { Style } from "../text/measure";

/** A text at its start (or middle), relative to the centre of its node. */
export interface Text {
  text: string;
  style: Style;
  x: number;
  /** Baseline. */
  y: number;
  anchor: "start" | "middle" | "end";
  /** Whether it is in the header of a card, or at the bottom of a closed box. */
  head?: boolean;
  foot?: boolean;
  /** Of the number that a node holds, how wide another one may be; left out of all other texts. */
  room?: number;
}

/** A dashed line from the box to a hollow mark, with its words. Relative to the centre of the node. */
export interface StubShape {
  line: [number, number, number, number];
  x: number;
  y: number;
  argument: string;
  rest: string;
  text: { x: number; y: number };
}

/** Everything about a node that does not depend on where it stands. */
export interface NodeShape {
  /** The box that is seen. */
  width: number;
  height: number;
  /** The room kept free for it: the box and, on both sides alike, its stubs. */
  outerWidth: number;
  outerHeight: number;
  /** Distance of an output's second outline from its box, 0 for others. */
  outline: number;
  /** Height of the flag at the top of an output, 0 for others. */
  flagHeight: number;
  texts: Text[];
  stubs: StubShape[];
  /** What a node has that is drawn as on a board. */
  card?: CardParts;
  /** What a closed box has besides its words. */
  tile?: TileParts;
  /** Where its strip over the ranks of a run is drawn. */
  ranks?: Cell;
  /** For an operation between boxes, drawn as its sign only: whether in a circle. */
  sign?: "round" | "plain";
}

interface TileParts {
  /** Where the norm of what arrived at its parameters is written, its baseline; null where it has none. */
  number: number | null;
  /** The text until it is known: how many numbers the parameters hold. */
  rest: string;
  /** Height of the strip at its foot, with what it took in; 0 for none. */
  under: number;
  /** Whether it is a module without others in it. */
  isLayer: boolean;
}

/** How a card is drawn: with all that it says, or small. */
export type CardSize = "full" | "near";

/** A part of a node; x, y is its centre, relative to the node's. */
export interface Cell {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** What makes a node a card: a header, its value, and a cell for its gradient. */
export interface CardParts {
  size: CardSize;
  /** Height of the header. */
  header: number;
  /** Hairlines between the parts. */
  rules: [number, number, number, number][];
  /** Where the gradient is written; null where none can come. */
  grad: Cell | null;
  /** Where the shares that are added up are written in one line; null where nothing is added up. */
  sum: Cell | null;
  /** Where each share has a row of its own, on a leaf. */
  rows: Cell[];
  /** Where the numbers of a tensor stand that can be set. */
  numberInputs?: Cell;
}
