import { perObject, valueAt } from "../maps";
import { boardRows, boardValues, compactValues, rounded } from "../text/gradient";
import type { Measure } from "../text/measure";
import { formatShape, oneLine, shortenList, shortenMiddle } from "../text/shorten";
import type { GraphModel, NodeModel, NoGradInput, Values } from "../wire";
import { AGAIN } from "./checkpoints";
import { isAutograd, isWork } from "./shown_graph";

/** The words on a node, already short enough to draw. */
export interface NodeWords {
  title: string;
  /** Name of an operation's tensor, apart from the operation's own name. */
  name: string | null;
  shape: string | null;
  /** "×200" on a leaf that is drawn once per use. */
  uses: string | null;
  /** Text on an output's flag; null for other nodes. */
  flag: string | null;
  /** One line per operand without gradient, or one for all if there are many. */
  stubs: Stub[];
  /** The operation's sign on a board. */
  sign?: string | null;
  /** Its value, if that fits. */
  value?: string | null;
  /** A matrix, row by row. */
  rows?: readonly string[] | null;
  isNumber?: boolean;
  /** Whether its graph has shapes but no numbers. */
  onlyShapes?: boolean;
  /** Whether it ran inside backward, so that its number is not known. */
  inBackward?: boolean;
  /** The room for number inputs, which replace the written numbers. */
  numberInputs?: InputRoom | null;
  /** Whether its numbers follow the reader, so that its card has room for other ones. */
  moves?: boolean;
  /** The number of contributions to its gradient. */
  shares?: number;
  /** Whether it has a strip over ranks. */
  hasStrip?: boolean;
  /** Whether the words "value" and "grad" are above it: once in a picture. */
  isLabelled?: boolean;
  /** The least width of its gradient's cell, px. */
  gradRoom?: number;
  /** Whether its sign is below it, as between closed boxes. */
  isCaptioned?: boolean;
  /** Drawn small: without gradient. */
  quiet?: boolean;
  /** The words of a closed box. */
  tile?: TileWords;
}

/** The grid of a tensor's inputs. */
export interface InputRoom {
  columns: number;
  rows: number;
}

declare module "../wire/generated" {
  interface NodeModel {
    /** Added by the page: the grid for which its box has room. */
    numberInputs?: InputRoom;
    /** Added by the page: whether its numbers follow the reader. */
    moves?: boolean;
  }
}

interface TileWords {
  /** Its parameters' number of elements. */
  numbers: number;
  /** Its absorbed followers. */
  under: string | null;
  /** Whether it is a module without submodules. */
  isLayer: boolean;
}

interface Stub {
  argument: string;
  /** The words after the argument. */
  rest: string;
}

const TITLE_ROOM = 220;
const NAME_ROOM = 130;
const SHAPE_ROOM = 170;
const ARGUMENT_ROOM = 90;
const QUIET_ROOM = 180;
const VALUE_ROOM = 128;
/** The most rows of a matrix that are written. */
const MOST_ROWS = 4;
const MANY_STUBS = 5;

export function wordsOf(
  node: NodeModel,
  flags: readonly string[],
  uses: number,
  measure: Measure,
  runsAgain = false,
): NodeWords {
  if (!isAutograd(node) && !isWork(node)) return quietWords(node, measure);
  const mark = runsAgain ? `${AGAIN} ` : "";
  const leaf = node.kind === "leaf";
  const hidden = leaf || node.name === null || flags.includes(node.name);
  // An autograd leaf is named after its tensor alone; a static graph's input states its role.
  const name = hidden ? roleOf(node) : oneLine(node.name ?? "");
  const shortened = (text: string, room: number, style: Parameters<Measure>[1]) =>
    shortenMiddle(text, room, (part) => measure(part, style));
  // The box already has a leaf's own name.
  const flagged = leaf ? flags.map((flag) => (flag === node.name ? "output" : flag)) : flags;
  return {
    title: shortened(
      (node.sign === null ? mark : "") + (oneLine(leaf ? node.label : node.op) || "unnamed"),
      TITLE_ROOM,
      "title",
    ),
    name: name === null ? null : shortened(name, NAME_ROOM, "name"),
    shape: shapeOf(node, (text) => shortenList(text, SHAPE_ROOM, (part) => measure(part, "shape"))),
    uses: uses > 1 ? `×${uses}` : null,
    flag:
      flagged.length === 0 ? null : shortened(flagged.map(oneLine).join(", "), TITLE_ROOM, "flag"),
    stubs: stubsOf(node.no_grad_inputs, measure),
    sign: leaf ? null : node.sign && mark + signIn(node),
    isNumber: node.shape?.every((size) => size === 1) ?? false,
    numberInputs: node.numberInputs ?? null,
    moves: node.moves ?? false,
    ...fittingValue(node, measure),
  };
}

/** Mark compiled code. Once it is open, its box shows the number of calls. */
function signIn({ op, sign, namespace }: NodeModel): string {
  const [box] = (namespace?.slice(namespace.lastIndexOf("/") + 1) ?? "").split(" ");
  return box === op ? (sign ?? "").split(":")[0] : (sign ?? "");
}

/** A node's value as on its card; null if it is unknown or too long. */
function fittingValue(node: NodeModel, measure: Measure): Pick<NodeWords, "value" | "rows"> {
  const fits = (text: string) => measure(text, "digits") <= VALUE_ROOM;
  if (node.value === null) return { value: null };
  const rows = rowsOf(node);
  const few = Array.isArray(node.value) ? rounded(node.value) : [];
  return {
    value: [node.value, ...few].map((one) => valueText(node, one)).find(fits) ?? null,
    rows: rows && rows.length <= MOST_ROWS && rows.every(fits) ? rows : null,
  };
}

/** The rows of a matrix; null for other values, and if the value needs a word. */
export function rowsOf({ value, changed }: NodeModel): string[] | null {
  return value === null || changed === null ? null : boardRows(value);
}

/** A value as on a board, with a word if it may have changed since the forward pass. */
export function valueText({ changed }: NodeModel, value: Values): string {
  return `${changed === null ? "now " : ""}${boardValues(value)}`;
}

/** The text instead of a value: that it changed, else the shape. */
function shapeOf(
  { shape, changed }: NodeModel,
  shortened: (text: string) => string,
): string | null {
  if (changed) return "changed";
  return shape === null ? null : shortened(formatShape(shape));
}

/** A static leaf's role, "parameter", or the first operation on an autograd leaf; null for others. */
export function roleOf({ kind, op, sign }: NodeModel): string | null {
  if (kind !== "leaf") return null;
  return op === "AccumulateGrad" ? sign : op;
}

/** The words on a constant, a cut or a tensor outside the graph. */
function quietWords(node: NodeModel, measure: Measure): NodeWords {
  const isNamedCut = node.kind === "cut" && node.name !== null;
  const under = isNamedCut ? oneLine(node.op) : valueOrShape(node);
  const title = oneLine(node.label) || "unnamed";
  const isValue = node.value !== null && title === compactValues(node.value);
  const shorten = isValue ? shortenList : shortenMiddle;
  const shortenUnder = isNamedCut ? shortenMiddle : shortenList;
  return {
    title: shorten(title, QUIET_ROOM, (part) => measure(part, "name")),
    name: null,
    shape:
      under === null ? null : shortenUnder(under, QUIET_ROOM, (part) => measure(part, "shape")),
    uses: null,
    flag: null,
    stubs: [],
    ...fittingValue(node, measure),
    moves: node.moves ?? false,
    quiet: true,
  };
}

/** A small tensor's value, unless that is its label; else its shape. */
function valueOrShape({ value, label, shape }: NodeModel): string | null {
  const text = value === null ? null : compactValues(value);
  if (text !== null && text !== label) return text.replaceAll("-", "\u2212");
  return shape === null || text === label ? null : formatShape(shape);
}

function stubsOf(inputs: readonly NoGradInput[], measure: Measure): Stub[] {
  if (inputs.length >= MANY_STUBS)
    return [{ argument: `${inputs.length} inputs`, rest: ": no grad" }];
  return inputs.map((input) =>
    isGeneric(input)
      ? { argument: "", rest: "constant" }
      : {
          argument: shortenMiddle(argumentOf(input), ARGUMENT_ROOM, (part) =>
            measure(part, "stub"),
          ),
          rest: ": no grad",
        },
  );
}

/** Whether torch's name of an operand means nothing to a reader, as "self" and "other" of a sum. */
function isGeneric({ argument }: NoGradInput): boolean {
  return argument === null || GENERIC.test(argument);
}

const GENERIC = /^(self|other|input|tensors?\d?|(mat|vec|batch)\d?)$/;

export function argumentOf(input: NoGradInput): string {
  return input.argument === null ? `input ${input.arg_nr}` : oneLine(input.argument);
}

/** Whether neither a leaf nor an operation has a number, as in a plan on fake tensors. */
export const hasNoValues = perObject(({ nodes }: Pick<GraphModel, "nodes">) =>
  nodes.every((node) => node.value === null || !isAutograd(node)),
);

const NAMES_ROOM = 32;

/** The outputs' names, shortened. */
export function outputNames(graph: GraphModel): string {
  const names = [...flagsOf(graph).values()].flat().map(oneLine);
  return shortenMiddle(names.join(", "), NAMES_ROOM, (part) => part.length);
}

/** Per node, its flag's names: its outputs, in their given order. */
export function flagsOf(graph: GraphModel): Map<number, string[]> {
  const flags = new Map<number, string[]>();
  graph.roots.forEach((root, i) => {
    const text = root.name ?? (graph.roots.length > 1 ? `output ${i}` : "output");
    const known = valueAt(flags, root.node, () => []);
    if (!known.includes(text)) known.push(text);
  });
  return flags;
}
