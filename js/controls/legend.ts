import { element, svgElement, svgText } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import type { Direction } from "../layout/direction";
import { scissorsPart } from "../paint/edge_parts";
import type { GradientLabel } from "../paint/gradient_label";
import { markPart } from "../paint/label_parts";
import { FREED_MARK, GRADIENT_MARK } from "../paint/node_parts";
import { makePart } from "../paint/parts";
import { foldedIn } from "../scene/members";
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
  copies: boolean;
  /** Whether there are closed boxes, merged lines, and edges with folded plumbing. */
  folded?: { boxes: boolean; merged: boolean; plumbing: boolean };
  ran: boolean;
  unreached: boolean;
  freed: boolean;
  /** Whether there are strips over ranks, and nodes that some ranks lack. */
  ranks?: { strips: boolean; only: boolean };
  /** The pass that is stepped through; null for none. */
  recording: Recording | null;
}

/** One entry per sign in the current drawing. */
export function legendEntries(options: LegendOptions): HTMLElement[] {
  const { isStatic = false } = options;
  const words = (dynamic: string, fixed: string) =>
    isStatic === "some" ? `${dynamic}, static: ${fixed}` : isStatic ? fixed : dynamic;
  const { kinds } = options;
  const isDrawn = (kind: NodeModel["kind"]) => kinds?.has(kind) ?? true;
  const leaf = words("leaf that requires grad", "input or parameter");
  const entries = [
    ...(isDrawn("op") ? [entry("operation", 26, box("gw-op", 3))] : []),
    ...(isDrawn("leaf") ? [entry(leaf, 26, box("gw-leaf", 7))] : []),
    entry("output", 30, box("gw-root", 3)),
    ...arrowEntries(options),
    ...cellEntries(options.labels ?? []),
  ];
  if (options.copies) entries.push(entry("one leaf drawn once per use", 26, [], "×n"));
  if (options.stubs) {
    entries.push(
      entry("input without grad", 26, [
        svgElement("path", { class: "gw-stub-line", d: "M-11,0H3" }),
        svgElement("circle", { class: "gw-stub-mark", cx: 7, cy: 0, r: 3.5 }),
      ]),
    );
  }
  if (options.folded) entries.push(...foldedEntries(options.folded));
  if (options.kinds) entries.push(...quietEntries(options.kinds, isStatic === true));
  const { recording } = options;
  if (recording) entries.push(...stepEntries(recording));
  else if (options.ran)
    entries.push(entry("a gradient arrived", 16, badge("gw-badge-reached", 6.5, GRADIENT_MARK)));
  if (recording ? recording.step.includes(0) : options.unreached)
    entries.push(
      entry(recording ? "not reached" : "no gradient arrived", 26, box("is-unreached", 3)),
    );
  if (options.ranks) entries.push(...rankEntries(options.ranks));
  if (options.freed)
    entries.push(entry("buffers freed", 16, badge("gw-badge-freed", 6, FREED_MARK)));
  return entries;
}

/** The arrows that the drawing can have: of gradients, gradients to come, zeros, values, and data. */
function arrowEntries(options: LegendOptions): HTMLElement[] {
  const { isStatic = false, direction = "left", recording, ran, kinds } = options;
  const arrow = (text: string, name: string, isBack = false) => {
    const turn = TURNS[direction] + (isBack ? 180 : 0);
    const parts = [
      svgElement("path", { class: "gw-line", d: "M-11,0H5" }),
      svgElement("path", { class: isBack ? "gw-value-head" : "gw-arrow", d: "M11,0L4,-3.5V3.5Z" }),
    ];
    const sign = svgElement(
      "g",
      { class: `gw-edge ${name}`, transform: `rotate(${turn})` },
      ...parts,
    );
    return entry(text, 26, [sign]);
  };
  if (isStatic === true) return [arrow("data flows", "", true)];
  const steps = recording?.steps.length ?? 0;
  return [
    ...(ran || recording ? [arrow("gradient", "is-flowed")] : []),
    ...(!ran || steps > 0 ? [arrow("gradient will go here", "is-pending")] : []),
    ...(recording && recording.zero.size > 0
      ? [arrow("gradient is exactly 0", "is-flowed is-zero")]
      : []),
    ...(kinds?.has("constant") ? [arrow("value without gradient", "is-quiet", true)] : []),
    ...(isStatic === "some" ? [arrow("static: data flows", "", true)] : []),
  ];
}

/** The angle of an arrow to the right in each direction. */
const TURNS: Record<Direction, number> = { right: 0, down: 90, left: 180, up: 270 };

/** The cells with gradients, and the signs in them. */
function cellEntries(labels: readonly GradientLabel[]): HTMLElement[] {
  const cell = (text: string, sign: string, stored: boolean) => {
    const ground = { class: "gw-cell-ground", x: -18, y: -8, width: 36, height: 16, rx: 3 };
    const words = svgText(sign, { class: "gw-cell-label", y: 3.5 });
    const name = `gw-gradient gw-cell${stored ? " is-stored" : ""}`;
    return entry(text, 38, [svgElement("g", name, svgElement("rect", ground), words)]);
  };
  const has = (is: (label: GradientLabel) => unknown) => labels.some(is);
  const isTotal = (label: GradientLabel) => label.stored && !label.none;
  return [
    ...(has(isTotal) ? [cell("stored in .grad", ".grad", true)] : []),
    ...(has(
      ({ cell, stored, none }) => cell && !stored && !none && cell !== "row" && cell !== "sum",
    )
      ? [cell("passed through, not kept", "grad", false)]
      : []),
    ...(has(({ text }) => text.includes("\u2016"))
      ? [entry("norm of several numbers", 26, [], "\u2016 \u2016")]
      : []),
    ...(has(({ cell }) => cell === "row")
      ? [entry("rows of a leaf: one per use, then their sum", 26, [], "= \u03a3")]
      : []),
  ];
}

/** The entries of a graph with this many autograd nodes. */
export function drawingEntries(
  drawing: Pick<Drawing, "scene" | "progress" | "gradients">,
  shown: GraphModel,
  autograd: number,
  state: StateModel | undefined,
): HTMLElement[] {
  const { scene, progress } = drawing;
  const ran = (state?.runs ?? 0) > 0;
  return legendEntries({
    direction: scene?.direction ?? "left",
    labels: drawing.gradients,
    isStatic: shown.static,
    stubs: scene?.nodes.some(({ shape }) => shape.stubs.length > 0) ?? false,
    kinds: new Set(scene?.nodes.flatMap(({ id, group }) => (group ? [] : shown.nodes[id].kind))),
    copies: scene?.nodes.some((node) => node.copies > 1) ?? false,
    folded: foldedIn(scene),
    ran,
    unreached: ran && (state?.reached ?? []).length < autograd,
    freed: (state?.freed ?? []).length > 0,
    ranks: {
      strips: scene?.nodes.some(({ shape }) => shape.ranks) ?? false,
      only: scene?.nodes.some(({ only }) => only !== undefined) ?? false,
    },
    recording: progress?.recording ?? null,
  });
}

/** The signs of strips over the ranks of a run. */
function rankEntries({ strips, only }: NonNullable<LegendOptions["ranks"]>): HTMLElement[] {
  const bar = (name: string, x: number, height: number) =>
    svgElement("rect", { class: name, x, y: 6 - height, width: 4, height });
  const sign = (name: string, d: string) => [svgElement("path", { class: name, d })];
  const entries = strips
    ? [
        entry("gradient norm, a bar for each rank (or some: least to most)", 22, [
          bar("gw-rank-bar", -9, 9),
          bar("gw-rank-bar", -3, 7),
          bar("gw-rank-bar", 3, 5),
          bar("gw-rank-range", 3, 11),
        ]),
        entry("rank that is shown", 14, sign("gw-rank-shown", "M0,-4L4,3H-4Z")),
        entry("rank that is not as most", 14, sign("gw-rank-odd", "M0,-4L4,0L0,4L-4,0Z")),
        entry("NaN or Inf", 14, sign("gw-rank-cross", "M-3.2,-3.2l6.4,6.4m0,-6.4l-6.4,6.4")),
        entry("no gradient", 14, [svgElement("circle", { class: "gw-rank-none", r: 2.6 })]),
      ]
    : [];
  if (only)
    entries.push(
      entry("not on all ranks", 30, [
        svgElement("rect", {
          class: "gw-only-ground",
          x: -13,
          y: -8,
          width: 26,
          height: 16,
          rx: 5,
        }),
        ...box("gw-op", 3),
      ]),
    );
  return entries;
}

/** The entries of boxes, merged lines and folded plumbing. */
function foldedEntries({ boxes, merged, plumbing }: NonNullable<LegendOptions["folded"]>) {
  const entries: HTMLElement[] = [];
  const sheet = { class: "gw-sheet", x: -8, y: -7.5, width: 20, height: 11, rx: 3 };
  if (boxes)
    entries.push(entry("closed module", 28, [svgElement("rect", sheet), ...box("gw-closed", 3)]));
  if (merged) entries.push(entry("lines in one", 26, [], "×n"));
  if (plumbing) {
    const number = svgText("n", { y: 3.4 });
    entries.push(
      entry("views and transposes, folded into an edge", 30, [
        svgElement("path", { class: "gw-line", d: "M-15,0H15" }),
        svgElement(
          "g",
          "gw-edge-folded",
          svgElement("rect", { x: -7, y: -7, width: 14, height: 14, rx: 7 }),
          number,
        ),
      ]),
    );
  }
  return entries;
}

/** The entries of nodes that no gradient flows through. */
function quietEntries(kinds: ReadonlySet<NodeModel["kind"]>, isStatic: boolean): HTMLElement[] {
  const entries: HTMLElement[] = [];
  const line = (kind: string, from: number, to: number) =>
    svgElement(
      "g",
      `gw-edge is-quiet is-${kind}`,
      svgElement("path", { class: "gw-line", d: `M${from},0H${to}` }),
    );
  const chip = (kind: string) => svgElement("g", `gw-quiet gw-${kind}`, ...box("", 5.5));
  if (kinds.has("constant"))
    entries.push(
      entry(isStatic ? "buffer or constant" : "constant: needs no grad", 26, [chip("constant")]),
    );
  if (kinds.has("cut")) {
    const scissors = makePart(scissorsPart(0, 0));
    entries.push(entry("cut: no gradient flows here", 44, [line("cut", -21, 21), scissors]));
  }
  if (kinds.has("outside")) entries.push(entry("tensor outside this graph", 26, [chip("outside")]));
  return entries;
}

/** A short key of the states while stepping. */
export function stateKey(): HTMLElement {
  return element(
    "div",
    { class: "gw-state-key", role: "list", "aria-label": "States of nodes" },
    // Equally wide, so that their words are aligned.
    entry("done", 34, stage("is-done")),
    entry("runs now", 34, stage("is-running")),
    entry("next", 34, stage("is-ready")),
    entry("waits", 34, stage("is-waiting")),
  );
}

/** The entries of stepping. They are the same at every step, so that nothing below them moves. */
function stepEntries({ steps, marks }: Recording): HTMLElement[] {
  const entries: HTMLElement[] = [];
  if (steps.length > 0) {
    entries.push(
      entry("runs now", 34, stage("is-running")),
      entry("done, with its step", 40, stage("is-done", "3")),
      entry("ready", 40, stage("is-ready", "4")),
    );
  }
  const kinds = new Set(Array.from(marks.values(), (all) => all.map((mark) => mark.kind)).flat());
  if (kinds.has("error"))
    entries.push(entry("stopped with an error", 20, [makePart(markPart("error"))]));
  if (kinds.has("nan"))
    entries.push(entry("NaN or Inf is born here", 32, [makePart(markPart("nan"))]));
  return entries;
}

function stage(name: string, step?: string): SVGElement[] {
  const group = svgElement("g", `gw-node gw-op ${name}`, ...box("", 3));
  if (name === "is-running") {
    group.prepend(
      svgElement("rect", { class: "gw-run-ring", x: -14, y: -8.5, width: 28, height: 17, rx: 6 }),
    );
  }
  if (step !== undefined) {
    const text = svgText(step, { x: 11, y: -0.6 });
    group.append(
      svgElement(
        "g",
        "gw-badge-step",
        svgElement("rect", { x: 4, y: -8.5, width: 14, height: 12, rx: 6 }),
        text,
      ),
    );
  }
  return [group];
}

function entry(text: string, width: number, shapes: SVGElement[], sign?: string): HTMLElement {
  const picture = svgElement(
    "svg",
    { viewBox: `${-width / 2} -9 ${width} 18`, width, height: 18, "aria-hidden": "true" },
    ...shapes,
  );
  return element(
    "span",
    { class: "gw-legend-entry", role: "listitem" },
    sign ? element("b", {}, sign) : picture,
    text,
  );
}

function box(kind: string, radius: number): SVGElement[] {
  const rect = (name: string, grow: number) =>
    svgElement("rect", {
      class: name,
      x: -10 - grow,
      y: -5.5 - grow,
      width: 20 + 2 * grow,
      height: 11 + 2 * grow,
      rx: radius + grow / 2,
    });
  const parts: SVGElement[] = [rect("gw-box", 0)];
  if (kind === "gw-root") {
    parts.unshift(rect("gw-outline", 2.5));
    parts.push(
      svgElement("path", {
        class: "gw-flag",
        d: "M-10,-1V-3.5Q-10,-5.5 -8,-5.5H8Q10,-5.5 10,-3.5V-1Z",
      }),
    );
  }
  return [svgElement("g", kind, ...parts)];
}

function badge(name: string, radius: number, mark: string): SVGElement[] {
  return [
    svgElement("g", name, svgElement("circle", { r: radius }), svgElement("path", { d: mark })),
  ];
}
