import { FONTS, SMALLEST, type Style } from "../text/measure";
import type { COLOURS } from "./colours";

/** A colour of the theme, of the element's category, or none. */
export type Colour = keyof typeof COLOURS | "tint" | "ink" | "tint-line" | "none" | "transparent";

/** CSS properties, with colours by their names in the theme. */
export type Look = Readonly<Record<string, string>>;

/** The parts with this look, from the outside in. */
export type Row = readonly [look: Look, ...places: string[]];

const SHOWN = { display: "inline" };
const HIDDEN = { display: "none" };
const DIM = { opacity: "0.3" };
/** A line as wide at every scale. */
const CONSTANT = { "vector-effect": "non-scaling-stroke" };
/** Broken, until something flows. */
const BROKEN = dashes("4 3");
const MIDDLE = { "text-anchor": "middle" };
/** Letters at their exact places, so that they fit the boxes that were made for them. */
const EXACT = { "text-rendering": "geometricprecision" };

function fill(colour: Colour): Look {
  return { fill: colour };
}

function stroke(colour: Colour, width?: number): Look {
  return width === undefined ? { stroke: colour } : { stroke: colour, ...wide(width) };
}

function wide(width: number): Look {
  return { "stroke-width": `${width}` };
}

function dashes(lengths: string): Look {
  return { "stroke-dasharray": lengths };
}

/** Nothing but a line. */
function line(colour: Colour, width: number): Look {
  return { ...fill("none"), ...stroke(colour, width) };
}

function area(inside: Colour, outline: Colour, width?: number): Look {
  return { ...fill(inside), ...stroke(outline, width) };
}

function font(weight: number, size: number): Look {
  return { "font-weight": `${weight}`, "font-size": `${size}px`, "font-family": "sans" };
}

/** The font that a scene was built for. */
function fontOf(style: Style): Look {
  return font(FONTS[style].weight, FONTS[style].size);
}

/**
 * The looks of everything in a picture: on a page, on a canvas, and in a file. A place names a part's surroundings and
 * the part, from the outside in, each by a tag or by classes joined with dots. Later rows override earlier ones.
 */
export const TABLE: readonly Row[] = [
  [fill("stage"), "gw-ground"],
  [{ ...fill("text"), ...font(600, 13) }, "gw-still-label"],

  // The key of the colours, in files
  [area("tint", "op-rule", 0.6), "gw-key-step"],
  [{ ...fill("dim"), ...fontOf("cell") }, "gw-key-text"],

  // The memory curve of a plan, in files
  [{ ...fill("accent"), opacity: "0.35" }, "gw-curve-area"],
  [{ ...line("dim", 1), ...dashes("3 3") }, "gw-curve-split"],
  [line("text", 1.5), "gw-curve-marker"],
  [fill("alarm"), "gw-curve-peak"],

  // Edges
  [line("edge", 1.3), "gw-line"],
  [{ ...wide(1), ...BROKEN }, "gw-edge.is-unreached gw-line"],
  // The way of a gradient that has not come yet; a grey arrow is a value.
  [{ ...stroke("grad", 1.3), ...dashes("5 4") }, "gw-edge.is-pending gw-line"],
  [dashes("none"), "gw-edge.is-plain gw-line"],
  [stroke("grad", 2), "gw-edge.is-flowed gw-line"],
  // A gradient flowed, and is exactly 0.
  [{ ...stroke("edge", 1.6), ...dashes("1.5 4") }, "gw-edge.is-flowed.is-zero gw-line"],
  [stroke("accent", 2.2), "gw-edge.is-lit gw-line"],
  // Constants and cuts: there for the picture, but no gradient flows through them.
  [stroke("edge", 1), "gw-edge.is-quiet gw-line"],
  [{ ...stroke("cut", 1.2), ...dashes("5 4") }, "gw-edge.is-cut gw-line"],
  [wide(2.8), "gw-edge.is-passing gw-line"],
  [wide(2.2), "gw-edge.is-merged gw-line"],
  [stroke("tint-line", 2.4), "gw-edge.is-tinted gw-line"],
  [stroke("accent", 1.8), "gw-edge.is-quiet.is-lit gw-line"],
  // By the norm of the gradient: from 1 to 5 px.
  ...Array.from({ length: 9 }, (_, i): Row => [wide(1 + i / 2), `gw-edge.is-w${i} gw-line`]),
  [fill("edge"), "gw-arrow"],
  [fill("edge"), "gw-value-head"],
  [area("stage", "grad", 1.2), "gw-edge.is-pending gw-arrow"],
  [fill("grad"), "gw-edge.is-flowed gw-arrow", "gw-ring-head"],
  [fill("edge"), "gw-edge.is-flowed.is-zero gw-arrow"],
  [fill("accent"), "gw-edge.is-lit gw-arrow"],
  [fill("tint-line"), "gw-edge.is-tinted gw-arrow"],
  // A head is wider than its line.
  [
    { ...stroke("grad", 3), "stroke-linejoin": "round" },
    ...[6, 7, 8].map((i) => `gw-edge.is-w${i} gw-arrow`),
  ],
  [stroke("accent"), ...[6, 7, 8].map((i) => `gw-edge.is-w${i}.is-lit gw-arrow`)],
  [stroke("tint-line"), ...[6, 7, 8].map((i) => `gw-edge.is-w${i}.is-tinted gw-arrow`)],
  [area("stage", "none"), "gw-scissors circle"],
  [{ ...line("cut", 1.3), "stroke-linecap": "round" }, "gw-scissors path"],
  // Links from derivatives to their functions: not edges.
  [{ ...line("name", 1.3), ...dashes("6 4") }, "gw-link-line"],
  [{ ...line("name", 1.3), "stroke-linecap": "round" }, "gw-link-head"],
  [fill("stage"), "gw-link rect"],
  [{ ...fill("name"), ...fontOf("edge"), ...MIDDLE }, "gw-link text"],
  [DIM, "gw-edge.is-dim", "gw-node.is-dim", "gw-gradients.is-dim", "gw-links.is-dim"],

  // On edges: names, numbers of merged lines, plumbing folded into them, gradients
  [fill("stage"), "gw-edge-label rect", "gw-edge-count rect", "gw-edge-folded rect"],
  [area("stage", "grad", 1.4), "gw-edge-portal rect"],
  [stroke("edge", 1.2), "gw-edge.is-quiet gw-edge-portal rect"],
  [{ ...fill("grad-strong"), ...font(700, SMALLEST), ...MIDDLE }, "gw-edge-portal text"],
  [fill("dim"), "gw-edge.is-quiet gw-edge-portal text"],
  [area("grad-soft", "grad", 3), "gw-edge.is-running gw-edge-folded rect"],
  [{ ...fill("dim"), ...fontOf("edge"), ...MIDDLE }, "gw-edge-label text"],
  [fill("accent"), "gw-edge.is-lit gw-edge-label text"],
  [
    { ...fill("dim"), ...font(600, SMALLEST), ...MIDDLE },
    "gw-edge-count text",
    "gw-edge-folded text",
  ],
  [{ opacity: "0" }, "gw-edge-folded.is-shy"],
  [
    { opacity: "1" },
    "gw-edge.is-lit gw-edge-folded.is-shy",
    "gw-edge.is-running gw-edge-folded.is-shy",
  ],
  [area("grad-soft", "grad", 0.8), "gw-gradient rect"],
  [{ ...fill("grad-strong"), ...fontOf("gradient"), ...MIDDLE, ...EXACT }, "gw-gradient text"],
  [area("alarm-soft", "alarm"), "gw-gradient.is-alarming rect"],
  [fill("alarm"), "gw-gradient.is-alarming text"],

  [{ display: "none" }, "gw-gradient.is-note rect"],
  [{ ...fill("dim"), ...fontOf("cell") }, "gw-gradient.is-note text"],

  // Boxes: an operation is a rectangle, a leaf a pill, an output has two outlines and a flag
  [area("op", "op-rule", 1.2), "gw-box"],
  [area("leaf", "leaf-rule"), "gw-leaf gw-box"],
  [stroke("root-rule"), "gw-root gw-box"],
  [{ ...fill("stage"), ...BROKEN }, "is-unreached gw-box"],
  [area("stage", "edge", 1), "gw-quiet gw-box"],
  [BROKEN, "gw-constant gw-box", "gw-card.gw-copy gw-box"],
  [{ ...stroke("cut"), ...dashes("3 2.5") }, "gw-cut gw-box"],
  [{ ...area("none", "leaf-rule"), ...dashes("3 2.5") }, "gw-outside gw-box"],
  // The state of each node in the pass: its outline, and its step as a hollow or a filled tag.
  [{ ...fill("stage"), ...wide(1) }, "is-waiting gw-box"],
  [stroke("grad", 1.6), "is-ready gw-box", "is-done gw-box", "is-running gw-box"],
  [fill("grad-soft"), "gw-op.is-done gw-box", "gw-op.is-running gw-box"],
  [area("closed", "closed-rule"), "gw-closed gw-box"],
  [fill("root"), "gw-root.gw-op gw-box"],
  [fill("op"), "gw-card.gw-op gw-box"],
  [fill("root"), "gw-card.gw-root.gw-op gw-box"],
  [{ ...stroke("grad", 1.6), ...dashes("5 3") }, "gw-card.is-ready gw-box"],
  [area("op", "op-rule", 1.2), "gw-single gw-box", "gw-round gw-box"],
  [stroke("grad", 1.6), "gw-round.is-reached gw-box", "gw-round.is-done gw-box"],
  // The marks of the reader are on top.
  [stroke("accent"), "gw-node.is-near gw-box"],
  [stroke("accent", 2), "gw-node.is-hovered gw-box"],
  [stroke("accent", 2.8), "gw-node.is-selected gw-box"],
  [stroke("hit", 3), "gw-node.is-hit gw-box"],
  [fill("hit"), "gw-node.is-current-hit gw-box"],
  [fill("stage"), "gw-closed.is-unreached gw-box"],
  [fill("tint"), "gw-node.is-tinted gw-box"],
  [{ ...wide(2), ...dashes("2 3") }, "gw-node.is-tinted.is-c-zero gw-box"],
  [area("op", "frame-rule", 1.2), "gw-sheet"],
  [fill("op"), "gw-foot"],
  [area("stage", "root-rule", 1.2), "gw-outline"],
  [fill("root-rule"), "gw-flag"],
  [{ ...line("accent", 2), ...HIDDEN }, "gw-focus-ring"],
  [
    { ...stroke("accent", 5), "stroke-opacity": "0.25", ...SHOWN },
    "gw-node.is-selected gw-focus-ring",
  ],
  [HIDDEN, "gw-run-ring"],
  [{ ...area("stage", "grad", 3), ...SHOWN }, "gw-node.is-running gw-run-ring"],

  // Cards: the operation's sign, the value, and a cell for the gradient
  [area("op", "text", 1.3), "gw-card-sign"],
  [line("rule", 1), "gw-rule"],
  [fill("grad-soft"), "gw-cell-ground"],
  [fill("grad"), "is-stored gw-cell-ground"],
  [{ ...fill("grad-strong"), ...fontOf("cell") }, "gw-cell.is-sum text"],
  [{ ...fill("grad-strong"), ...fontOf("digits"), "text-anchor": "end" }, "gw-cell.is-row text"],
  // Zeros are not drawn as a success.
  [fill("op"), "is-arrived gw-cell-ground", "is-zero gw-cell-ground"],
  [fill("alarm-soft"), "is-alarming gw-cell-ground"],
  [fontOf("digits"), "gw-cell.is-near text"],
  [fontOf("number"), "gw-cell.is-full text"],
  [fontOf("digits"), "gw-cell.is-small text"],
  [{ ...fill("grad-strong"), ...fontOf("cell") }, "gw-cell gw-cell-label"],
  [fill("grad-text"), "gw-cell.is-stored text"],
  [fill("dim"), "gw-cell.is-zero text"],
  [fill("alarm"), "gw-cell.is-alarming text"],
  [fill("op"), "is-none gw-cell-ground"],
  [{ ...fill("dim"), "font-weight": "400" }, "gw-cell.is-none text"],

  // Words in boxes
  [{ ...fill("text"), ...EXACT }, "gw-text"],
  [fontOf("title"), "gw-text-title"],
  [{ ...fill("name"), ...fontOf("name") }, "gw-text-name"],
  [{ ...fill("dim"), ...fontOf("shape") }, "gw-text-shape"],
  [fontOf("sign"), "gw-text-sign"],
  [{ ...fill("name"), ...fontOf("card") }, "gw-text-card"],
  [{ ...fill("name"), ...fontOf("label") }, "gw-text-label"],
  [{ ...fill("dim"), ...fontOf("cell") }, "gw-text-cell"],
  [fontOf("number"), "gw-text-number"],
  [fontOf("digits"), "gw-text-digits"],
  [{ ...fontOf("fine"), ...HIDDEN }, "gw-text-fine"],
  [fill("dim"), "gw-node gw-text-fine"],
  [fill("grad-strong"), "gw-fine-grad"],
  [fill("text"), "gw-quiet gw-text-card"],
  [fill("leaf-text"), "gw-leaf gw-text-head"],
  [fill("leaf-text"), "gw-leaf gw-text-title", "gw-leaf gw-text-shape"],
  [fill("dim"), "gw-quiet gw-text-name"],
  [fill("cut"), "gw-cut gw-text-name"],
  [fill("leaf-text"), "gw-outside gw-text-name"],
  [
    fill("dim"),
    "gw-node.is-waiting gw-text",
    "gw-node.is-unreached gw-text-title",
    "gw-node.is-unreached gw-text-name",
    "gw-node.is-unreached gw-text-shape",
  ],
  [fill("hit-text"), "gw-node.is-current-hit gw-text"],
  [fill("text"), "gw-round gw-text-card"],
  [fill("ink"), "gw-node.is-tinted gw-text"],
  [fill("ink"), "gw-leaf.is-tinted gw-text-head"],
  [fill("dim"), "gw-node gw-text-foot"],
  [{ ...fill("root-text"), ...fontOf("flag") }, "gw-text-flag"],

  // Operands that need no grad
  [{ ...line("dim", 1.2), ...dashes("2.5 2.5") }, "gw-stub path", "gw-stub-line"],
  [area("stage", "dim", 1.2), "gw-stub circle", "gw-stub-mark"],
  [{ ...fill("dim"), ...fontOf("stub"), ...EXACT }, "gw-stub text"],
  [{ "font-weight": "600" }, "gw-stub-argument"],

  // Signs on the corners of a box
  [HIDDEN, "gw-node gw-badge-reached", "gw-node gw-badge-freed", "gw-badge-step"],
  [
    SHOWN,
    "gw-node.is-reached gw-badge-reached",
    "gw-node.is-freed gw-badge-freed",
    "gw-node.is-ready gw-badge-step",
    "gw-node.is-running gw-badge-step",
    "gw-node.is-done gw-badge-step",
  ],
  [
    HIDDEN,
    "gw-card.is-reached gw-badge-reached",
    "gw-card.is-freed gw-badge-freed",
    "gw-sign.is-reached gw-badge-reached",
    "gw-sign.is-freed gw-badge-freed",
  ],
  [area("grad", "stage", 1.5), "gw-badge-reached circle"],
  [fill("grad-text"), "gw-badge-reached path"],
  [area("stage", "none"), "gw-badge-freed circle"],
  [line("freed", 1.2), "gw-badge-freed path"],
  [area("stage", "grad", 1.2), "gw-badge-step rect"],
  [{ ...fill("grad"), ...font(700, 9.5), ...MIDDLE }, "gw-badge-step text"],
  [
    area("grad", "stage"),
    "gw-node.is-running gw-badge-step rect",
    "gw-node.is-done gw-badge-step rect",
  ],
  [
    fill("grad-text"),
    "gw-node.is-running gw-badge-step text",
    "gw-node.is-done gw-badge-step text",
  ],
  [area("alarm", "stage"), "gw-badge-alarm rect"],
  [{ ...fill("ground"), ...font(700, 10), ...MIDDLE }, "gw-badge-alarm text"],
  [fill("dim"), "gw-badge-alarm.is-zero rect"],
  [area("alarm", "stage", 1.5), "gw-mark rect"],
  [{ ...fill("alarm-soft"), ...font(700, 10), ...MIDDLE }, "gw-mark text"],
  [line("grad", 3), "gw-beacon-running"],

  // Open groups
  [area("frame", "frame-rule", 1.2), "gw-frame-box"],
  [fill("stage"), "gw-frame-box.is-odd"],
  [stroke("accent", 2.4), "gw-group-frame.is-selected gw-frame-box"],
  [fill("transparent"), "gw-frame-head rect"],
  [
    {
      ...area("text", "frame", 4),
      ...fontOf("title"),
      "stroke-linejoin": "round",
      "paint-order": "stroke",
    },
    "gw-frame-head gw-text",
  ],
  [fill("accent"), "gw-group-frame.is-selected gw-text"],
  [HIDDEN, "gw-comparison gw-frame-sign"], // boxes stay open there
  [area("op", "frame-rule"), "gw-frame-sign rect", "gw-open-sign rect"],
  [{ ...line("dim", 1.5), "stroke-linecap": "round" }, "gw-frame-sign path", "gw-open-sign path"],
  // A layer is seldom opened: the sign appears on hover.
  [HIDDEN, "gw-single gw-open-sign"],
  [
    SHOWN,
    "gw-single.is-hovered gw-open-sign",
    "gw-single.is-focused gw-open-sign",
    "gw-single.is-selected gw-open-sign",
  ],

  // Strips: a bar for each block, with its name and, once it is known, its gradient
  [{ ...fill("dim"), "font-weight": "400" }, "gw-strip-bar gw-text-title"],
  [fill("dim"), "gw-strip-bar gw-text-fine"],
  [area("op", "op-rule", 1), "gw-strip-bar gw-box"],
  // Without a number it is a closed box, not an empty bar.
  [area("closed", "frame-rule", 1), "gw-strip-bar.is-unknown gw-box"],
  [{ ...fill("stage"), ...BROKEN }, "gw-strip-bar.is-unreached gw-box"],
  [area("rule", "none"), "gw-strip-bar.is-thin gw-box"],
  [stroke("grad", 1.4), "gw-strip-bar.is-ready gw-box"],
  [stroke("grad", 2.6), "gw-strip-bar.is-running gw-box"],
  [stroke("accent", 2), "gw-strip-bar.is-near gw-box", "gw-strip-bar.is-hovered gw-box"],
  [stroke("hit", 3), "gw-strip-bar.is-hit gw-box"],
  [stroke("accent", 2.5), "gw-strip-bar.is-selected gw-box"],
  [{ ...fill("tint"), stroke: "none" }, "gw-strip-fill"],
  [fill("rule"), "gw-strip-fill.is-plain"],
  [line("dim", 1.2), "gw-strip-end"],
  [{ ...fill("text"), ...fontOf("name") }, "gw-strip-number"],
  [{ ...fill("dim"), stroke: "none" }, "gw-frame-fact"],
  [{ ...fill("accent") }, "gw-frame-fact.gw-text-title"],

  // Strips over ranks: shapes distinguish the ranks, then colours
  [area("op", "none"), "gw-rank-ground"],
  [line("rule", 1), "gw-rank-line"],
  [{ ...fill("grad"), stroke: "none", opacity: "0.6" }, "gw-rank-bar"],
  [{ ...fill("grad"), stroke: "none", opacity: "0.3" }, "gw-rank-range"],
  [{ opacity: "1" }, "gw-rank-bar.is-shown"],
  [{ opacity: "0.5" }, "gw-rank-range.is-shown"],
  [{ ...fill("alarm"), opacity: "0.85" }, "gw-rank-bar.is-odd"],
  [{ ...fill("alarm"), opacity: "0.4" }, "gw-rank-range.is-odd"],
  [line("alarm", 1.6), "gw-rank-cross"],
  [line("dim", 1.2), "gw-rank-none"],
  [{ ...fill("accent"), stroke: "none" }, "gw-rank-shown"],
  [{ ...fill("alarm"), stroke: "none" }, "gw-rank-odd"],

  // Comparison: a coloured background and a sign with words for unshared nodes
  [{ ...area("only-soft", "only", 1), ...CONSTANT }, "gw-only-ground"],
  [line("only-soft", 9), "gw-only-edge"],
  [fill("only"), "gw-only-tag rect"],
  [{ ...fill("only-text"), ...font(600, 9.5), ...MIDDLE }, "gw-only-tag text"],
  [area("ground", "edge", 1), "gw-error-sign rect"],
  [{ ...fill("text"), ...font(600, 9.5), ...MIDDLE }, "gw-error-sign text"],
  [stroke("alarm", 1.4), "gw-error-sign.is-out rect"],
  [fill("alarm"), "gw-error-sign.is-first rect"],
  [{ ...fill("ground") }, "gw-error-sign.is-first text"],
  [{ ...area("transparent", "edge", 1.2), ...dashes("2 4") }, "gw-ghost"],
  [stroke("accent", 2.4), "gw-ghost.is-selected"],
  [{ ...line("rule", 1), ...CONSTANT }, "gw-ghosts"],
  [{ ...line("edge", 1), ...dashes("1 5"), opacity: "0.7" }, "gw-ghost-edge"],
];
