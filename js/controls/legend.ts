import { element, svgElement } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import type { Direction } from "../layout/direction";
import { pendingClass } from "../paint/classes";
import { FOLDED, portalSign, scissorsPart } from "../paint/edge_parts";
import type { GradientLabel } from "../paint/gradient_label";
import { markPart } from "../paint/label_parts";
import { seenMarks, type Widths } from "../paint/marks";
import { FREED_MARK, GRADIENT_MARK } from "../paint/node_parts";
import { makePart, type Part, part } from "../paint/parts";
import { AGAIN } from "../scene/checkpoints";
import { foldedIn } from "../scene/members";
import type { PortalSign } from "../scene/scene";
import type { Recording } from "../steps/recording";
import type { GraphModel, NodeModel, StateModel } from "../wire";

interface LegendOptions {
  /** Whether the graph is static; "some" if only some of several graphs are. */
  isStatic?: boolean | "some";
  stubs: boolean;
  /** Kinds of nodes that are drawn. */
  kinds?: ReadonlySet<NodeModel["kind"]>;
  /** The direction of gradients in the drawing. */
  direction?: Direction;
  /** The gradients that are written, at the end of the pass. */
  labels?: readonly GradientLabel[];
  /** The widths of lines, if they show norms. */
  widths?: Widths | null;
  copies: boolean;
  /** The class of lines along which no gradient has flowed yet. */
  pending?: string;
  /** Whether there are closed boxes, merged lines and edges with folded plumbing; and the first portal's sign. */
  folded?: { boxes: boolean; merged: boolean; plumbing: boolean; portal?: PortalSign | undefined };
  ran: boolean;
  unreached: boolean;
  /** Whether a gradient can still come in one of the graphs, and whether an earlier pass freed one. */
  waits: boolean;
  freed: boolean;
  /** Whether nodes have badges because only some of their class are freed. */
  isPartlyFreed?: boolean;
  strips?: Drawing["strips"];
  /** Whether there are strips over ranks, and nodes that some ranks lack. */
  ranks?: { strips: boolean; only: boolean };
  /** The pass that is stepped through; null for none. */
  recording: Recording | null;
}

/** An entry, or what is false for none. */
type Entry = HTMLElement | false | undefined;

/** One entry per sign in the current drawing. */
export function legendEntries(options: LegendOptions): HTMLElement[] {
  const { isStatic = false, kinds, folded, ran, recording } = options;
  const words = (dynamic: string, fixed: string) =>
    isStatic === "some" ? `${dynamic}, static: ${fixed}` : isStatic ? fixed : dynamic;
  const isDrawn = (kind: NodeModel["kind"]) => kinds?.has(kind) ?? true;
  const leaf = words("leaf that requires grad", "input or parameter");
  const isUnreached = recording ? recording.step.includes(0) : options.unreached;
  const entries: Entry[] = [
    isDrawn("op") && entry("operation", 26, box("gw-op", 3)),
    isDrawn("leaf") && entry(leaf, 26, box("gw-leaf", 7)),
    entry("output", 30, box("gw-root", 3)),
    ...arrowEntries(options),
    ...widthEntries(options.widths ?? null),
    ...cellEntries(options.labels ?? []),
    options.copies &&
      (options.labels?.some(({ ofCopies }) => ofCopies)
        ? entry("sum for a leaf drawn once per use", 26, "\u03a3")
        : entry("one leaf drawn once per use", 26, "×n")),
    options.stubs &&
      entry("input without grad", 26, [
        part("path", { class: "gw-stub-line", d: "M-11,0H3" }),
        part("circle", { class: "gw-stub-mark", cx: 7, cy: 0, r: 3.5 }),
      ]),
    ...(folded ? foldedEntries(folded) : []),
    ...(options.strips ? stripEntries(options.strips) : []),
    ...(kinds ? quietEntries(kinds, isStatic === true) : []),
    ...(recording ? stepEntries(recording) : []),
    !recording &&
      ran &&
      entry("a gradient arrived", 16, badge("gw-badge-reached", 6.5, GRADIENT_MARK)),
    isUnreached &&
      entry(recording ? "not reached" : "no gradient arrived", 26, box("is-unreached", 3)),
    ...(options.ranks ? rankEntries(options.ranks) : []),
    options.isPartlyFreed && entry("buffers freed", 16, badge("gw-badge-freed", 6, FREED_MARK)),
  ];
  return entries.filter((one) => one instanceof HTMLElement);
}

/** The arrows that the drawing can have: of gradients, gradients to come, zeros, values, and data. */
function arrowEntries(options: LegendOptions): Entry[] {
  const { isStatic = false, direction = "left", recording, ran, kinds } = options;
  const { pending = "is-pending" } = options;
  const arrow = (text: string, name: string, isBack = false) => {
    const turn = TURNS[direction] + (isBack ? 180 : 0);
    const place = { class: `gw-edge ${name}`, transform: `rotate(${turn})` };
    const head = { class: isBack ? "gw-value-head" : "gw-arrow", d: "M11,0L4,-3.5V3.5Z" };
    const line = part("path", { class: "gw-line", d: "M-11,0H5" });
    return entry(text, 26, [part("g", place, [line, part("path", head)])]);
  };
  if (isStatic === true) return [arrow("data flows", "", true)];
  const steps = recording?.steps.length ?? 0;
  return [
    (ran || recording !== null) && arrow("gradient", "is-flowed"),
    options.waits && (!ran || steps > 0) && arrow("gradient will go here", pending),
    options.freed && arrow("path of the gradient, not recorded", "is-pending is-plain"),
    recording !== null &&
      recording.zero.size > 0 &&
      arrow("gradient is exactly 0", "is-flowed is-zero"),
    kinds?.has("constant") && arrow("value without gradient", "is-quiet", true),
    isStatic === "some" && arrow("static: data flows", "", true),
  ];
}

/** The widths of lines and their norms; none if all are as wide. */
export function widthEntries(widths: Widths | null): HTMLElement[] {
  return (widths?.ends ?? []).map(({ name, text }) => {
    const line = part("path", { class: "gw-line", d: "M-11,0H11" });
    return entry(text, 26, [part("g", { class: `gw-edge is-flowed ${name}` }, [line])]);
  });
}

/** The angle of an arrow to the right in each direction. */
const TURNS: Record<Direction, number> = { right: 0, down: 90, left: 180, up: 270 };

/** The cells with gradients, and the signs in them. */
function cellEntries(labels: readonly GradientLabel[]): Entry[] {
  const cell = (text: string, sign: string, name: string) => {
    const ground = { class: "gw-cell-ground", x: -18, y: -8, width: 36, height: 16, rx: 3 };
    const words = part("text", { class: "gw-cell-label", y: 3.5 }, sign);
    return entry(text, 38, [part("g", { class: name }, [part("rect", ground), words])]);
  };
  const isPassing = ({ cell, stored, none, zero }: GradientLabel) =>
    cell && !stored && !none && !zero && cell !== "row" && cell !== "sum";
  return [
    labels.some(({ stored, none, zero }) => stored && !none && !zero) &&
      cell("stored in .grad", ".grad", "gw-gradient gw-cell is-stored"),
    labels.some(isPassing) && cell("passed through, not kept", "grad", "gw-gradient gw-cell"),
    labels.some(({ cell, zero }) => cell && zero) &&
      cell("a gradient of zeros", "0", "gw-gradient gw-cell is-zero"),
    labels.some(({ text }) => text.includes("\u2016")) &&
      entry("norm of all elements", 26, "\u2016 \u2016"),
    labels.some(({ cell }) => cell === "row") &&
      entry("rows of a leaf: one per use, then their sum", 26, "= \u03a3"),
  ];
}

/** A drawn graph, and what was seen of its backward. */
interface Drawn {
  drawing: Pick<Drawing, "scene" | "progress" | "gradients" | "widths" | "strips">;
  graph: GraphModel;
  /** The number of its autograd nodes. */
  autograd: number;
  state: StateModel | undefined;
}

/** The entries of one drawn graph, or of several. */
export function drawingEntries(all: readonly Drawn[]): HTMLElement[] {
  const scenes = all.flatMap(({ drawing }) => drawing.scene ?? []);
  const nodes = scenes.flatMap((scene) => scene.nodes);
  const isStatic = ({ graph }: Drawn) => graph.static;
  const ran = ({ state }: Drawn) => (state?.runs ?? 0) > 0;
  const kinds = all.flatMap(({ drawing: { scene }, graph }) =>
    (scene?.nodes ?? []).flatMap(({ id, group }) => (group ? [] : graph.nodes[id].kind)),
  );
  const passes = all.flatMap(({ drawing }) => drawing.progress?.recording ?? []);
  // A graph whose buffers an unrecorded pass freed; the others wait, or show their pass.
  const isFreed = ({ drawing, state }: Drawn) =>
    !drawing.progress && (state?.runs ?? 0) === 0 && (state?.freed ?? []).length > 0;
  return legendEntries({
    direction: scenes[0]?.direction ?? "left",
    labels: all.flatMap(({ drawing }) => drawing.gradients),
    isStatic: all.every(isStatic) || (all.some(isStatic) && "some"),
    stubs: nodes.some(({ shape }) => shape.stubs.length > 0),
    kinds: new Set(kinds),
    widths: all.map(({ drawing }) => drawing.widths).find(Boolean) ?? null,
    copies: nodes.some(({ copies }) => copies > 1),
    pending: scenes[0] && pendingClass(scenes[0], false),
    folded: foldedIn(scenes),
    strips: {
      bars: all.some(({ drawing }) => drawing.strips.bars),
      unknown: all.some(({ drawing }) => drawing.strips.unknown),
      again: all.some(({ drawing }) => drawing.strips.again),
    },
    ran: all.some(ran),
    unreached: all.some((one) => ran(one) && (one.state?.reached ?? []).length < one.autograd),
    waits: !all.every(isFreed),
    freed: all.some(isFreed),
    isPartlyFreed: all.some(({ state, graph }) => seenMarks(state, graph.nodes).isPartlyFreed),
    ranks: {
      strips: nodes.some(({ shape }) => shape.ranks),
      only: nodes.some(({ only }) => only !== undefined),
    },
    recording: passes[0] ?? null,
  });
}

/** The signs of strips over the ranks of a run. */
function rankEntries({ strips, only }: NonNullable<LegendOptions["ranks"]>): Entry[] {
  const bar = (name: string, x: number, height: number) =>
    part("rect", { class: name, x, y: 6 - height, width: 4, height });
  const sign = (name: string, d: string) => [part("path", { class: name, d })];
  const ground = { class: "gw-only-ground", x: -13, y: -8, width: 26, height: 16, rx: 5 };
  const bars = [
    bar("gw-rank-bar", -9, 9),
    bar("gw-rank-bar", -3, 7),
    bar("gw-rank-bar", 3, 5),
    bar("gw-rank-range", 3, 11),
  ];
  return [
    strips && entry("gradient norm, a bar for each rank (or some: least to most)", 22, bars),
    strips && entry("rank that is shown", 14, sign("gw-rank-shown", "M0,-4L4,3H-4Z")),
    strips && entry("rank that is not as most", 14, sign("gw-rank-odd", "M0,-4L4,0L0,4L-4,0Z")),
    strips && entry("NaN or Inf", 14, sign("gw-rank-cross", "M-3.2,-3.2l6.4,6.4m0,-6.4l-6.4,6.4")),
    strips && entry("no gradient", 14, [part("circle", { class: "gw-rank-none", r: 2.6 })]),
    only && entry("not on all ranks", 30, [part("rect", ground), ...box("gw-op", 3)]),
  ];
}

/** The entries of boxes, merged lines, folded plumbing and portals. */
function foldedEntries(folded: NonNullable<LegendOptions["folded"]>): Entry[] {
  const { boxes, merged, plumbing, portal } = folded;
  const sheet = { class: "gw-sheet", x: -8, y: -7.5, width: 20, height: 11, rx: 3 };
  const number = [
    part("rect", { x: -7, y: -7, width: 14, height: 14, rx: 7 }),
    part("text", { y: 3.4 }, FOLDED),
  ];
  return [
    boxes && entry("closed module", 28, [part("rect", sheet), ...box("gw-closed", 3)]),
    merged && entry("lines in one", 26, "×n"),
    plumbing &&
      entry("views and transposes, folded into an edge", 30, [
        part("path", { class: "gw-line", d: "M-15,0H15" }),
        part("g", { class: "gw-edge-folded" }, number),
      ]),
    portal &&
      entry("a long line: goes on at the same sign", portal.width + 4, [portalSign(0, 0, portal)]),
  ];
}

/** The blocks of strips: bars, without bars, and those that are recomputed. */
function stripEntries({ bars, unknown, again }: Drawing["strips"]): Entry[] {
  const block = (x: number, share: number) => {
    const [top, height] = [7 - 14 * share, 14 * share];
    return part("g", { class: share > 0 ? "gw-strip-bar" : "gw-strip-bar is-unknown" }, [
      part("rect", { class: "gw-box", x, y: -7, width: 7, height: 14, rx: 2 }),
      part("rect", { class: "gw-strip-fill is-c5", x, y: top, width: 7, height, rx: 2 }),
      ...(share > 0 ? [part("path", { class: "gw-strip-end", d: `M${x},${top}h7` })] : []),
    ]);
  };
  const blocks = (...shares: number[]) => shares.map((share, i) => block(9 * i - 12.5, share));
  return [
    bars &&
      entry("a bar for each block: the larger its number, the higher", 28, blocks(0.4, 0.6, 0.9)),
    unknown && entry("block whose gradient is not known (yet)", 28, blocks(0, 0, 0)),
    again && entry("block that runs forward again in backward", 14, AGAIN),
  ];
}

/** The entries of nodes that no gradient flows through. */
function quietEntries(kinds: ReadonlySet<NodeModel["kind"]>, isStatic: boolean): Entry[] {
  const chip = (kind: string) => [part("g", { class: `gw-quiet gw-${kind}` }, box("", 5.5))];
  const cut = part("path", { class: "gw-line", d: "M-21,0H21" });
  const constant = isStatic ? "buffer or constant" : "constant: needs no grad";
  return [
    kinds.has("constant") && entry(constant, 26, chip("constant")),
    kinds.has("cut") &&
      entry("cut: no gradient flows here", 44, [
        part("g", { class: "gw-edge is-quiet is-cut" }, [cut]),
        scissorsPart(0, 0),
      ]),
    kinds.has("outside") && entry("tensor outside this graph", 26, chip("outside")),
  ];
}

/** A short key of the states while stepping. */
export function stateKey(): HTMLElement {
  return element(
    "div",
    { class: "gw-state-key", role: "list", "aria-label": "States of nodes" },
    // Equally wide, so that their words are aligned.
    [
      entry("done", 34, stage("is-done")),
      entry("runs now", 34, stage("is-running")),
      entry("next", 34, stage("is-ready")),
      entry("waits", 34, stage("is-waiting")),
    ],
  );
}

/** The entries of stepping. They are the same at every step, so that nothing below them moves. */
function stepEntries({ steps, marks }: Recording): Entry[] {
  const hasSteps = steps.length > 0;
  const kinds = new Set([...marks.values()].flat().map((mark) => mark.kind));
  return [
    hasSteps && entry("runs now", 34, stage("is-running")),
    hasSteps && entry("done, with its step", 40, stage("is-done", "3")),
    hasSteps && entry("ready", 40, stage("is-ready", "4")),
    kinds.has("error") && entry("stopped with an error", 20, [markPart("error")]),
    kinds.has("nan") && entry("NaN or Inf is born here", 32, [markPart("nan")]),
  ];
}

function stage(name: string, step?: string): Part[] {
  const ring = { class: "gw-run-ring", x: -14, y: -8.5, width: 28, height: 17, rx: 6 };
  const number = [
    part("rect", { x: 4, y: -8.5, width: 14, height: 12, rx: 6 }),
    part("text", { x: 11, y: -0.6 }, step ?? ""),
  ];
  return [
    part("g", { class: `gw-node gw-op ${name}` }, [
      ...(name === "is-running" ? [part("rect", ring)] : []),
      ...box("", 3),
      ...(step === undefined ? [] : [part("g", { class: "gw-badge-step" }, number)]),
    ]),
  ];
}

/** An entry: its picture or its sign, and its words. */
export function entry(
  text: string,
  width: number,
  sign: readonly Part[] | string,
  height = 18,
): HTMLElement {
  const picture = { viewBox: `${-width / 2} ${-height / 2} ${width} ${height}`, width, height };
  const shown =
    typeof sign === "string"
      ? element("b", {}, sign)
      : svgElement("svg", { ...picture, "aria-hidden": "true" }, sign.map(makePart));
  return element("span", { class: "gw-legend-entry", role: "listitem" }, [shown, text]);
}

function box(kind: string, radius: number): Part[] {
  const rect = (name: string, grow: number) => {
    const size = { width: 20 + 2 * grow, height: 11 + 2 * grow, rx: radius + grow / 2 };
    return part("rect", { class: name, x: -10 - grow, y: -5.5 - grow, ...size });
  };
  const flag = { class: "gw-flag", d: "M-10,-1V-3.5Q-10,-5.5 -8,-5.5H8Q10,-5.5 10,-3.5V-1Z" };
  const parts =
    kind === "gw-root"
      ? [rect("gw-outline", 2.5), rect("gw-box", 0), part("path", flag)]
      : [rect("gw-box", 0)];
  return [part("g", { class: kind }, parts)];
}

function badge(name: string, radius: number, mark: string): Part[] {
  return [part("g", { class: name }, [part("circle", { r: radius }), part("path", { d: mark })])];
}
