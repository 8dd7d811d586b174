import { svgElement, svgText } from "../../dom/element";
import { ICONS } from "../../dom/icons";
import { type GradientLabel, roundedOf } from "../../paint/gradient_label";
import { CHIPS } from "../../scene/card";
import { halfway, pathData } from "../../scene/curve";
import type { EdgeId } from "../../scene/edge_id";
import { edgeFor } from "../../scene/members";
import type { Scene, SceneEdge } from "../../scene/scene";
import { type Measure, SMALLEST } from "../../text/measure";
import type { EditModel, FewModel, GraphModel, ShareModel, WhatIfModel } from "../../wire";
import { lineOf, wayTo } from "./edits";
import { editText, gradText } from "./words";

const PAD = 7;
const TAG_HEIGHT = 18;
/** The most tags in the picture; the panel lists them all. */
const MOST_TAGS = 60;
const MOST_LINES = 400;
/** Half the height of an edit's badge. */
const BADGE = 12;
/** The least length of a line with words. */
const ROOM = 150;
/** The least height above a badge for its words. */
const ROOM_ABOVE = 32;

/** The marks in the picture. */
interface Marked {
  graph: GraphModel;
  edits: readonly EditModel[];
  answer: WhatIfModel | null;
  selected: EdgeId | null;
  lit: ShareModel | null;
  /** The gradients of the whole pass in cells of nodes; none while another step is shown. */
  cells: readonly GradientLabel[];
}

/** Draw marks over the picture: edits, the values that they change, and the leaves before and after. */
export function marksOver(scene: Scene, marked: Marked, measure: Measure): SVGElement[] {
  const { graph, edits, answer, selected, lit } = marked;
  const found: SVGElement[] = [];
  if (lit) {
    const drawn = drawnAt(scene, wayTo(graph, [lit.consumer, lit.arg_nr]));
    const width = 2.5 + 8 * Math.min(1, Math.abs(lit.share));
    found.push(...drawn.map((edge) => line(edge, "gw-way", { "stroke-width": width })));
  }
  const reached = new Set(answer?.reached ?? []);
  const changed = graph.edges.flatMap(({ kind, source }, place) =>
    kind === "gradient" && reached.has(source) ? [place] : [],
  );
  found.push(...drawnAt(scene, changed.slice(0, MOST_LINES)).map((e) => line(e, "gw-changed")));
  edits.forEach((edit, i) => {
    if (answer?.failed || edit.off || typeof edit.edge === "string") return;
    const drawn = lineOf(graph, scene, [edit.edge[0], edit.edge[1]]);
    if (drawn) found.push(...editMark(scene, drawn, edit, answer?.edits[i] ?? null));
  });
  const at = selected && lineOf(graph, scene, selected);
  if (at) found.push(line(at, "gw-picked"));
  const leaves = (answer?.leaves ?? []).filter(({ difference }) => difference !== null);
  const known = new Set<number>();
  for (const label of marked.cells) {
    const [id] = label.nodes;
    if (label.edge !== null) {
      const { source, arg_nr } = graph.edges[label.edge];
      const i = edits.findIndex(
        ({ edge, off }) => !off && edge[0] === source && edge[1] === arg_nr,
      );
      const edited = answer?.edits[i];
      // The new share of a use that is not edited itself is unknown.
      if (edited || reached.has(source)) found.push(newNumber(label, edited?.now, measure));
      continue;
    }
    const leaf = leaves.find(({ node }) => node === id);
    const now = leaf ?? answer?.nodes.find(({ node }) => node === id);
    // A `.grad` that holds more than this pass keeps its number, and has a tag.
    if (!now || (leaf && gradText(leaf.before) !== label.text)) continue;
    const text = gradText(now.after);
    if (text === label.text) continue;
    known.add(id);
    found.push(newNumber(label, now.after, measure));
  }
  for (const leaf of leaves.slice(0, MOST_TAGS)) {
    if (known.has(leaf.node)) continue;
    const text = `${gradText(leaf.before)} → ${gradText(leaf.after)}`;
    for (const index of scene.drawn[leaf.node] ?? [])
      if (!scene.nodes[index].isCopy) found.push(leafTag(scene, index, text, measure));
  }
  return found;
}

/** The lines of the graph's edges, each once. */
function drawnAt(scene: Scene, places: readonly number[]): SceneEdge[] {
  const found = places.map((place) => edgeFor(scene, place));
  return [...new Set(found)].filter((edge) => edge !== undefined);
}

function line(edge: SceneEdge, name: string, more: Record<string, number> = {}): SVGElement {
  return svgElement("path", { class: name, d: pathData(edge.curve), ...more });
}

/** Where a badge covers no card: halfway along its line, else above or below the line's ends. */
function freeHeight({ nodes }: Scene, { curve, source, target }: SceneEdge, width: number): number {
  const [x, middle] = halfway(curve);
  const covers = (y: number) =>
    nodes.some(
      (node) =>
        Math.abs(node.x - x) < (node.shape.width + width) / 2 &&
        Math.abs(node.y - y) < node.shape.height / 2 + BADGE,
    );
  const ends = [source, target].map((index) => nodes[index]);
  const above = Math.min(...ends.map(({ y, shape }) => y - shape.height / 2)) - BADGE - 3;
  const below = Math.max(...ends.map(({ y, shape }) => y + shape.height / 2)) + BADGE + 3;
  return [middle, above, below].find((y) => y >= BADGE && !covers(y)) ?? middle;
}

function editMark(
  scene: Scene,
  drawn: SceneEdge,
  edit: EditModel,
  known: WhatIfModel["edits"][number] | null,
): SVGElement[] {
  const [x] = halfway(drawn.curve);
  const { kind, value } = edit;
  // The panel has room for several numbers.
  const word = typeof value === "number" ? editText(edit) : "=";
  const sign =
    kind === "cut"
      ? svgElement("path", { d: ICONS.scissors, transform: "translate(-8,-8)" })
      : words(0, 4, word);
  const wide = kind === "cut" ? 24 : Math.max(24, 8 * word.length);
  const box = { x: -wide / 2, y: -BADGE, width: wide, height: 2 * BADGE, rx: BADGE };
  const y = freeHeight(scene, drawn, wide);
  const badge = svgElement("g", { class: "gw-edit-badge", transform: `translate(${x},${y})` }, [
    svgElement("rect", box),
    sign,
  ]);
  const [left, top, right, bottom] = drawn.bounds;
  // On a short line a tag would cover its ends; the panel has these words too.
  if (known && Math.hypot(right - left, bottom - top) > ROOM) {
    const now = kind === "cut" ? "nothing" : gradText(known.now);
    const change = `${gradText(known.was)} → ${now}`;
    // At the upper edge of the picture the words do not fit above the badge.
    if (y < ROOM_ABOVE) badge.append(words(wide / 2 + 6, -5, change, "gw-edit-words is-beside"));
    else badge.append(words(0, -18, change, "gw-edit-words"));
  }
  return [
    line(drawn, "gw-edited-ground"),
    line(drawn, `gw-edited${kind === "cut" ? " is-cut" : ""}`),
    badge,
  ];
}

/** The new gradient over a cell, as large as fits, beside the old one; that alone if it is unknown. */
function newNumber(
  { x, y, width, height, text, cell }: GradientLabel,
  now: FewModel | null | undefined,
  measure: Measure,
) {
  // A row has its numbers in a line.
  const isFull = cell === "full" || cell === "near";
  const box = { x: x - width / 2, y: y - height / 2, width, height };
  const { name, low } = CHIPS[cell === "full" ? "full" : "near"];
  // Within the rounded corner of its card.
  const inner = { x: box.x + 1, y: box.y + 1, width: width - 2, height: height - 2, rx: 6 };
  const room = width - (isFull ? PAD : 2 * PAD);
  const texts = now === undefined ? [""] : [gradText(now), ...(now ? roundedOf(now) : [])];
  const large = texts.find((one) => measure(one, "digits") < room) ?? texts[texts.length - 1];
  const size = Math.min(
    cell === "full" ? 20 : SMALLEST,
    (SMALLEST * room) / measure(large, "digits"),
  );
  const left = isFull ? width - 3 : room - PAD - measure(large, "digits");
  const old = [`was ${text}`, text].find(
    (one) => now === undefined || measure(one, "shape") < left,
  );
  const [at, line] = isFull ? [x, y + low] : [box.x + width - PAD, y + 4.5];
  const number = words(at, line, large);
  number.style.fontSize = `${size}px`;
  return svgElement("g", `gw-new-grad${isFull ? " is-full" : ""}`, [
    svgElement("rect", { class: "gw-new-ground", ...inner }),
    ...(old ? [words(isFull ? x : box.x + PAD, isFull ? y + name : y + 3.5, old, "gw-was")] : []),
    number,
  ]);
}

/** A tag at the lower edge of a leaf. */
function leafTag(scene: Scene, index: number, text: string, measure: Measure): SVGElement {
  const { x, y, shape } = scene.nodes[index];
  const width = measure(text, "gradient") + 2 * PAD;
  const top = y + shape.height / 2 + 3;
  // A leaf is at the edge of the picture, and a wider mark must stay inside.
  const middle = Math.max(width / 2, Math.min(scene.width - width / 2, x));
  const outline = {
    x: x - shape.width / 2 - 2,
    y: y - shape.height / 2 - 2,
    width: shape.width + 4,
    height: shape.height + 4,
    rx: 14,
  };
  return svgElement("g", "gw-leaf-change", [
    svgElement("rect", { class: "gw-leaf-changed", ...outline }),
    svgElement("rect", { x: middle - width / 2, y: top, width, height: TAG_HEIGHT, rx: 4 }),
    words(middle, top + 12.5, text),
  ]);
}

function words(x: number, y: number, text: string, name = ""): SVGElement {
  return svgText(text, { x, y, class: name || null });
}
