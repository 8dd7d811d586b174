import { type ColourLegend, withoutScaleOfOne } from "../colours/colouring";
import { STEPS } from "../colours/scale";
import { describeDrawn, HOW_TO_OPEN } from "../interact/describe";
import { flow } from "../layout/direction";
import { errorsIn } from "../paint/beacons";
import { edgeClass, isRinged, nodeClass, zerosFirst } from "../paint/classes";
import { edgeParts, headAtRing, linkParts } from "../paint/edge_parts";
import { frameHeadParts, frameParts } from "../paint/frame_parts";
import type { GradientLabel } from "../paint/gradient_label";
import { gradientClass, gradientParts } from "../paint/label_parts";
import type { Marks } from "../paint/marks";
import { markParts, nodeParts } from "../paint/node_parts";
import { type Part, part } from "../paint/parts";
import type { SceneFrame } from "../scene/frame";
import { linksAt } from "../scene/links";
import type { Scene, SceneNode } from "../scene/scene";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";

/** All that is drawn of a scene, at full detail, with others' layers under and over it. */
export function pictureParts(
  graph: GraphModel,
  scene: Scene,
  marks: Marks,
  gradients: readonly GradientLabel[],
  { under = [], over = [] }: { under?: readonly Part[]; over?: readonly Part[] } = {},
): Part[] {
  const heading = flow(scene.direction);
  const frameLayer = (partsOf: (frame: SceneFrame) => Part[]) =>
    scene.frames.map((frame) => {
      const selected = frame.path === marks.module?.[0] ? " is-selected" : "";
      return part("g", { class: `gw-group-frame${selected}` }, partsOf(frame));
    });
  const edges = zerosFirst([...scene.edges.keys()], scene, marks).map((e) => {
    const edge = scene.edges[e];
    const attributes = { class: edgeClass(edge, scene, marks) };
    return part("g", attributes, edgeParts(edge, heading, scene.isStatic));
  });
  const labels = gradients.map((label) =>
    part("g", { class: gradientClass(label) }, gradientParts(label)),
  );
  const links = linksAt(scene, marks.selected).map((link) =>
    part("g", { class: "gw-link" }, linkParts(link)),
  );
  const nodes = scene.nodes.map((node) => nodePart(graph, node, marks));
  return [
    part("g", { class: "gw-frames" }, frameLayer(frameParts)),
    ...under,
    part("g", { class: "gw-edges" }, edges),
    part("g", { class: "gw-links" }, links),
    part("g", { class: "gw-nodes" }, nodes),
    part(
      "g",
      { class: "gw-ring-heads" },
      scene.edges
        .filter((edge) => isRinged(edge, scene, marks))
        .map((edge) => headAtRing(edge, heading)),
    ),
    part("g", { class: "gw-gradients" }, labels),
    part("g", { class: "gw-frame-heads" }, frameLayer(frameHeadParts)),
    ...over,
    part("g", { class: "gw-beacons" }, beacons(scene, marks)),
  ];
}

function nodePart(graph: GraphModel, node: SceneNode, marks: Marks): Part {
  const { title, lines } = describeDrawn(graph, node, marks);
  const words = lines.filter((line) => line !== HOW_TO_OPEN);
  const attributes = {
    class: nodeClass(node, marks, new Set()),
    role: "img",
    transform: `translate(${rounded(node.x)},${rounded(node.y)})`,
  };
  return part("g", attributes, [
    part("title", {}, title),
    part("desc", {}, words.join(", ")),
    ...nodeParts(node),
    ...markParts(node, marks),
  ]);
}

/** Error signs at full size. */
function beacons(scene: Scene, { progress }: Marks): Part[] {
  return errorsIn(scene, progress).map(({ x, y, parts }) =>
    part("g", { transform: `translate(${rounded(x)},${rounded(y)})` }, parts),
  );
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

/** The colour key's height, and the size of one step, px. */
const KEY = { height: 34, step: { width: 20, height: 9 } };

/** The key of the colours, if there are any, below a picture of this extent. */
export function keyParts(
  legend: ColourLegend | null,
  ground: ReturnType<typeof groundOf>,
  measure: Measure,
): { parts: Part[]; height: number } {
  if (!legend) return { parts: [], height: 0 };
  const { title, ticks, entries } = withoutScaleOfOne(legend);
  const [left, top] = [ground.x + MARGIN, ground.y + ground.height - MARGIN / 2];
  const { width, height } = KEY.step;
  const scale = left + measure(title, "cell") + 16;
  const text = (words: string, x: number, y: number, anchor: string) =>
    part("text", { class: "gw-key-text", x, y, "text-anchor": anchor }, words);
  const step = (name: string, x: number) =>
    part("rect", { class: `gw-key-step ${name}`, x, y: top, width, height });
  const parts = [text(title, left, top + height, "start")];
  let x = scale;
  if (ticks && ticks.length > 0) {
    for (let i = 0; i < STEPS; i++) parts.push(step(`is-c${i}`, scale + i * width));
    for (const { at, text: words } of ticks)
      parts.push(text(words, scale + at * STEPS * width, top + 2.4 * height, "middle"));
    x += STEPS * width + 24;
  }
  for (const { name, text: words } of entries) {
    parts.push(step(name, x), text(words, x + width + 6, top + height, "start"));
    x += width + 24 + measure(words, "cell");
  }
  return { parts: [part("g", { class: "gw-key" }, parts)], height: KEY.height };
}

/** Margin around the drawing, px: for a running node's ring, and badges. */
const MARGIN = 20;

/** The extent of the drawing and the gradients beside it. */
export function groundOf(scene: Scene, gradients: readonly GradientLabel[]) {
  let [left, top, right, bottom] = [0, 0, scene.width, scene.height];
  for (const { x, y, width, height } of gradients) {
    left = Math.min(left, x - width / 2);
    top = Math.min(top, y - height / 2);
    right = Math.max(right, x + width / 2);
    bottom = Math.max(bottom, y + height / 2);
  }
  const [x, y] = [Math.floor(left) - MARGIN, Math.floor(top) - MARGIN];
  return { x, y, width: Math.ceil(right) + MARGIN - x, height: Math.ceil(bottom) + MARGIN - y };
}

/** Drawings of the features below a picture in a file, under a box. */
export const FOOTERS: ((
  graph: GraphModel,
  box: { x: number; y: number; width: number },
  measure: Measure,
) => { parts: Part[]; height: number })[] = [];

/** The footers of the features below a picture of this extent, one under the other. */
export function footerParts(
  graph: GraphModel,
  { x, y, width, height }: { x: number; y: number; width: number; height: number },
  measure: Measure,
): { parts: Part[]; height: number } {
  let added = 0;
  const parts = FOOTERS.flatMap((footer) => {
    const made = footer(graph, { x, y: y + height + added, width }, measure);
    added += made.height;
    return made.parts;
  });
  return { parts, height: added };
}
