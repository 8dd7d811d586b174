import { FINE } from "../scene/fine";
import type { Place } from "../scene/grid";
import type { EdgeLabel } from "../scene/scene";
import { type GradientLabel, totalWord } from "./gradient_label";
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
  const { x, y, width, height, text, cell, added, exact, isApart, ofCopies } = label;
  const title = exact === undefined || exact === text ? [] : [part("title", {}, exact)];
  if (!cell) return [...title, ...labelParts(label)];
  if (cell === "sum") return [...title, part("text", { x, y: y + 3 }, text)];
  if (cell === "row") return [...title, part("text", { x: x + width / 2 - 8, y: y + 4.5 }, text)];
  const ground = part("path", { class: "gw-cell-ground", d: cellData(label) });
  const small = (words: string, at: number, baseline: number) =>
    part("text", { class: "gw-cell-label", x: at, y: baseline }, words);
  const left = x - width / 2 + 8;
  // The norm of a sum is not the sum of norms.
  const sign = ofCopies && !added ? "Σ" : text.startsWith("\u2016") ? "" : "=";
  const sum = isApart ? text : `${sign} ${text}`.trim();
  if (cell === "total") {
    const words = `${ofCopies ? "" : totalWord(label)} ${added ?? ""}`.trim();
    const total = label.none ? text : sum;
    return [
      ground,
      ...(words ? [small(words, left, y + 4)] : []),
      part("text", { x: x + width / 2 - 8, y: y + 5 }, total),
    ];
  }
  if (cell === "near" || cell === "share") {
    const baseline = nearBaseline(label);
    const word = { x: x - width / 2 + FINE.aside, y: y - height / 2 + FINE.under };
    return [
      ground,
      ...(added === undefined ? [] : [small(added, left, baseline)]),
      part("text", { class: "gw-cell-label gw-text-fine", ...word }, cellWord(label)),
      part("text", { x: x + width / 2 - 8, y: baseline }, added === undefined ? text : sum),
    ];
  }
  const top = y - height / 2;
  const below = label.besideWord ? undefined : added;
  const word = label.besideWord ? `${cellWord(label)} ${added}` : cellWord(label);
  return [
    ground,
    small(word, x, top + (below ? 14 : 17)),
    part("text", { x, y: top + (below ? 38 : label.small ? 43 : 46) }, added ? sum : text),
    ...(below === undefined ? [] : [small(below, x, top + 54)]),
  ];
}

/** The kind of a cell's number. */
function cellWord({ stored, none, changed, arrived }: GradientLabel): string {
  if (changed) return ".grad now";
  if (stored || none) return ".grad";
  return arrived ? "arrived" : "grad";
}

/** A small card's number is above its summands. */
function nearBaseline({ y, height }: Place): number {
  return height > 30 ? y - height / 2 + 15.5 : y + 4.5;
}

/** Half of the card's hairline stays visible. */
const INSET = 0.6;

/** A cell's background, within its card's corners. */
function cellData({ x, y, width, height, cell, stored, none, edge }: GradientLabel): string {
  const [left, top] = [x - width / 2 + INSET, y - height / 2 + INSET];
  const [right, bottom] = [x + width / 2 - INSET, y + height / 2 - INSET];
  const round = stored || none || edge !== null ? LEAF_RADIUS : CARD_RADIUS;
  const r = cell === "share" ? 0 : round - INSET;
  const corner =
    cell !== "full" ? `H${left + r}Q${left},${bottom} ${left},${bottom - r}` : `H${left}`;
  return `M${left},${top}H${right}V${bottom - r}Q${right},${bottom} ${right - r},${bottom}${corner}Z`;
}

/** The radius of cards' corners, px. */
export const CARD_RADIUS = 8;
export const LEAF_RADIUS = 14;

/** A tag that says "NaN" or "!". */
export function markPart(kind: "error" | "nan", x = 0): Part {
  const width = kind === "nan" ? 28 : 16;
  return part("g", { class: `gw-mark gw-mark-${kind}` }, [
    part("rect", { x: x - width / 2, y: -8, width, height: 16, rx: kind === "nan" ? 3 : 8 }),
    part("text", { x, y: 3.6 }, kind === "nan" ? "NaN" : "!"),
  ]);
}
