import { flow } from "../layout/direction";
import type { SceneFrame } from "../scene/frame";
import { type Box, overlap } from "../scene/grid";
import type { Scene, SceneNode } from "../scene/scene";
import { indexOf } from "../scene/scene_index";
import type { View } from "../scene/views";
import { edgeClass, nodeClass, zerosFirst } from "./classes";
import { edgeParts } from "./edge_parts";
import { frameParts, frameTitleParts } from "./frame_parts";
import type { Inks } from "./ink";
import { isDetailed, mapName, mapScale, titleScale } from "./level_of_detail";
import type { Marks } from "./marks";
import { markParts, nodeParts } from "./node_parts";
import { PartPainter, type Pen, type Place2D } from "./paint_parts";
import { PlainPainter } from "./paint_plain";
import type { Part } from "./parts";

/** The content of a canvas. */
export interface Picture2D {
  scene: Scene;
  /** Hover and focus are drawn as elements above the canvas. */
  marks: Marks;
  /** The source of the looks. */
  inks: Pick<Inks, "of">;
  /** Others' paths under the picture. */
  underlay: Element;
}

const NOBODY: ReadonlySet<number> = new Set();
/** Smaller open groups are left out, px. */
const LEAST_FRAME = 2;
/** Items drawn between two looks at the clock. */
const AT_ONCE = 24;
const PLAIN_AT_ONCE = 200;

/** Draw the part of a picture within a box, in the elements' order. Yields now and then, so that the page responds. */
export function* paintPicture(
  pen: Pen,
  { scene, marks, inks, underlay }: Picture2D,
  box: Box,
  place: Place2D,
): Generator<void, void, void> {
  const painter = new PartPainter(pen, place);
  const index = indexOf(scene);
  const scale = place.k / place.ratio;
  const frames = scene.frames.filter(
    (frame) => overlap(frame, box) && (frame.right - frame.left) * scale > LEAST_FRAME,
  );
  for (const batch of batches(frames, PLAIN_AT_ONCE)) {
    const well = inks.of("g", "gw-group-frame");
    if (well) painter.paint(batch.flatMap(frameParts), well);
    yield;
  }
  paintUnderlay(pen, underlay, inks, place);
  yield;
  const edges = zerosFirst(index.edgesIn(box), scene, marks);
  const nodes = index.nodesIn(box);
  if (!isDetailed(scale)) {
    const plain = new PlainPainter(pen, scene, marks, inks, place);
    for (const batch of batches(edges, PLAIN_AT_ONCE)) {
      plain.edges(batch);
      yield;
    }
    for (const batch of batches(nodes, PLAIN_AT_ONCE)) {
      plain.nodes(batch);
      yield;
    }
    return;
  }
  const heading = flow(scene.direction);
  const isMap = scale < mapScale(scene);
  for (const batch of batches(edges, AT_ONCE)) {
    for (const i of batch) {
      const edge = scene.edges[i];
      const well = inks.of("g", edgeClass(edge, scene, marks));
      const parts = edgeParts(edge, heading, scene.isStatic);
      const shown = isMap ? parts.filter(({ attributes }) => !isWord(attributes.class)) : parts;
      if (well) painter.paint(shown, well);
    }
    yield;
  }
  for (const batch of batches(nodes, AT_ONCE)) {
    for (const i of batch) {
      const node = scene.nodes[i];
      const well = inks.of("g", nodeClass(node, marks, NOBODY));
      const parts = isMap
        ? mapParts(node, marks, scale)
        : [...nodeParts(node), ...markParts(node, marks)];
      if (well) painter.paint(parts, well, node.x, node.y);
    }
    yield;
  }
}

/** Draw the heads of open groups, which are larger than the rest from afar, at the view's scale. */
export function paintHeads(
  pen: Pen,
  heads: readonly SceneFrame[],
  module: readonly string[] | null,
  inks: Pick<Inks, "of">,
  { k, x, y }: View,
  ratio: number,
): void {
  const size = k * ratio * titleScale(k);
  for (const head of heads) {
    const { path, left, top } = head;
    const name = path === module?.[0] ? "gw-group-frame is-selected" : "gw-group-frame";
    const around = inks.of("g", name)?.within({ tag: "g", attributes: { class: "gw-frame-head" } });
    const well = around?.within({ tag: "g", attributes: { class: "gw-frame-title" } });
    const place = { k: size, x: (k * left + x) * ratio, y: (k * top + y) * ratio, ratio };
    if (well) new PartPainter(pen, place).paint(frameTitleParts(head), well);
  }
}

/** Whether this part of an edge needs its text. */
function isWord(name: unknown): boolean {
  return /gw-edge-(label|count|folded)/.test(`${name}`);
}

/** A node from afar: its box with as much of its name as fits, and its marks without their words. */
function mapParts(node: SceneNode, marks: Marks, scale: number): Part[] {
  const shapes = markParts(node, marks, true).map(({ content, ...rest }) => ({
    ...rest,
    content: typeof content === "string" ? "" : content.filter(({ tag }) => tag !== "text"),
  }));
  return [...nodeParts(node, mapName(node, scale)), ...shapes];
}

function paintUnderlay(pen: Pen, underlay: Element, inks: Pick<Inks, "of">, place: Place2D): void {
  pen.setTransform(place.k, 0, 0, place.k, place.x, place.y);
  for (const element of underlay.querySelectorAll("path")) {
    const ink = inks.of("path", element.getAttribute("class") ?? "")?.ink;
    if (!ink) continue;
    const path = new Path2D(element.getAttribute("d") ?? "");
    pen.globalAlpha = ink.opacity;
    pen.setLineDash(ink.dash as number[]);
    pen.fillStyle = ink.fill ?? "transparent";
    pen.fill(path);
    pen.strokeStyle = ink.stroke ?? "transparent";
    pen.lineWidth = ink.isConstant ? (ink.width * place.ratio) / place.k : ink.width;
    pen.stroke(path);
  }
}

function* batches<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let i = 0; i < items.length; i += size) yield items.slice(i, i + size);
}
