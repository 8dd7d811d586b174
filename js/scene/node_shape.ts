import type { Style } from "../text/measure";
import type { Place } from "./grid";

/** A text by its start (or middle), relative to its node's centre. */
export interface Text {
  text: string;
  style: Style;
  x: number;
  y: number;
  anchor: "start" | "middle" | "end";
  /** Whether it is the name on a card, or at the bottom of a closed box. */
  head?: boolean;
  foot?: boolean;
  /** For a node's number, the room for another one; absent for other texts. */
  room?: number;
}

/** A dashed line from the box to a hollow mark, with words. Relative to the node's centre. */
export interface StubShape {
  line: [number, number, number, number];
  x: number;
  y: number;
  argument: string;
  rest: string;
  text: { x: number; y: number };
}

/** The properties of a node that do not depend on its place. */
export interface NodeShape {
  width: number;
  height: number;
  /** Its room: the box and, symmetrically, its stubs. */
  outerWidth: number;
  outerHeight: number;
  /** Distance of an output's second outline from its box, 0 for others. */
  outline: number;
  /** Height of the flag at the top of an output, 0 for others. */
  flagHeight: number;
  texts: Text[];
  stubs: StubShape[];
  /** The parts of a card. */
  card?: CardParts;
  /** The parts of a closed box besides its words. */
  tile?: TileParts;
  /** The place of its strip over ranks. */
  ranks?: Place;
  /** For an operation between boxes, drawn as its sign: whether in a circle. */
  sign?: "round" | "plain";
  /** For a leaf that is drawn once per use: the card of the use that also shows the sum. */
  withSum?: Pick<NodeShape, "texts" | "card">;
}

interface TileParts {
  /** The baseline of its parameters' gradient norm; null for none. */
  number: number | null;
  /** The text before the norm is known: the parameters' number of elements. */
  rest: string;
  /** Height of the strip at its foot with absorbed followers; 0 for none. */
  under: number;
  /** Whether it is a module without submodules. */
  isLayer: boolean;
}

/** A card's size. */
export type CardSize = "full" | "near";

/** The parts of a card: the operation's sign, its value, and a cell for its gradient. */
export interface CardParts {
  size: CardSize;
  /** Whether a name is above its value. */
  isNamed: boolean;
  /** The ring of the sign; null on a leaf. */
  sign: Place | null;
  /** The cell of the value, below the name. */
  value: Place;
  /** Hairlines between the parts. */
  rules: [number, number, number, number][];
  /** The cell of the gradient; null if none can come. */
  grad: Place | null;
  /** The cell of the summands; null without any. */
  sum: Place | null;
  /** On a leaf, a row for each contribution. */
  rows: Place[];
  /** The cell of a tensor's inputs. */
  numberInputs?: Place;
}
