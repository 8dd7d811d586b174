import { CHIPS } from "../scene/card";
import type { EdgeLabel } from "../scene/scene";
import type { GradientLabel } from "./gradient_label";
import { type Part, part } from "./parts";

/** A text on its background. */
export function labelParts({ x, y, width, height, text }: EdgeLabel, radius = 3): Part[] {
  return [
    part("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: radius }),
    part("text", { x, y: y + 3.5 }, text),
  ];
}

export function gradientClass({
  alarming,
  cell,
  small,
  stored,
  none,
  zero,
  arrived,
  local,
  note,
}: GradientLabel): string {
  return [
    "gw-gradient",
    alarming && "is-alarming",
    cell && `gw-cell is-${cell === "share" ? "near" : cell}`,
    small && "is-small",
    stored && "is-stored",
    none && "is-none",
    zero && "is-zero",
    arrived && "is-arrived",
    local && "is-local",
    note && "is-note",
  ]
    .filter(Boolean)
    .join(" ");
}

/** A gradient on an edge or beside a node, or filling the cell of a card. */
export function gradientParts(label: GradientLabel): Part[] {
  const { x, y, width, text, cell, exact } = label;
  const title = exact === undefined || exact === text ? [] : [part("title", {}, exact)];
  if (!cell) return [...title, ...labelParts(label)];
  if (cell === "sum") return [...title, part("text", { x, y: y + 3 }, text)];
  if (cell === "row") return [...title, part("text", { x: x + width / 2 - 8, y: y + 4.5 }, text)];
  const ground = part("path", { class: "gw-cell-ground", d: cellData(label) });
  const word = wordOf(label);
  const baselines = CHIPS[label.small ? "near" : cell === "full" ? "full" : "near"];
  const isLow = label.isLow || word !== "";
  const chip = CHIPS[cell === "full" ? "full" : "near"];
  const low = isLow ? chip.low : baselines.middle;
  const number = part("text", { x, y: y + low }, label.ofCopies ? `\u03a3 ${text}` : text);
  if (word === "") return [ground, number];
  return [ground, part("text", { class: "gw-cell-label", x, y: y + chip.name }, word), number];
}

/** The words over a cell's number: the kind of a leaf's gradient, and how it came about. */
function wordOf({ stored, none, changed, arrived, word, added, cell, ofCopies }: GradientLabel) {
  if (cell === "share" || ofCopies) return "";
  if (changed) return ".grad now";
  const kind = stored || none ? ".grad" : arrived ? "arrived" : (word ?? "");
  return added ?? kind;
}

/** Half of the card's outline stays visible. */
const INSET = 0.6;

/** A cell's background, within its card's right corners. */
function cellData({ x, y, width, height, rounds = [true, true] }: GradientLabel): string {
  const [left, top] = [x - width / 2, y - height / 2 + INSET];
  const [right, bottom] = [x + width / 2 - INSET, y + height / 2 - INSET];
  const [above, below] = rounds.map((isRound) => (isRound ? CARD_RADIUS - INSET : 0));
  const upper = `M${left},${top}H${right - above}Q${right},${top} ${right},${top + above}`;
  return `${upper}V${bottom - below}Q${right},${bottom} ${right - below},${bottom}H${left}Z`;
}

/** The radius of cards' corners, px. */
export const CARD_RADIUS = 10;

/** A tag that says "NaN" or "!". */
export function markPart(kind: "error" | "nan", x = 0): Part {
  const width = kind === "nan" ? 28 : 16;
  return part("g", { class: `gw-mark gw-mark-${kind}` }, [
    part("rect", { x: x - width / 2, y: -8, width, height: 16, rx: kind === "nan" ? 3 : 8 }),
    part("text", { x, y: 3.6 }, kind === "nan" ? "NaN" : "!"),
  ]);
}
