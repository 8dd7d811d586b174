import { listsBy, valueAt } from "../maps";
import { membersOf } from "../scene/members";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import { edgeClass, nodeClass } from "./classes";
import type { Ink, Inks } from "./ink";
import { seenWidth, solidity } from "./level_of_detail";
import type { Marks } from "./marks";
import { type Pen, type Place2D, roundBox } from "./paint_parts";
import { phaseOf, phaseOfEdge } from "./phases";
import { tintOf } from "./tiles";

/** The least visible size of a node, px. */
const LEAST = 1.4;
/** Smaller pieces of lines are straight, px. */
const STRAIGHT = 10;
/** Smaller corners are not rounded, px. */
const ROUND = 0.8;
/** The size of an alarm's dot, px. */
const ALARM = 4;
const NOBODY: ReadonlySet<number> = new Set();

/** The look of a box that is too small for texts. */
interface BoxLook {
  ink: Ink;
  /** Whether from afar it is filled with its outline's colour. */
  fills: boolean;
  radius: number;
}

/** Draw plain boxes and lines, thousands in a few milliseconds. */
export class PlainPainter {
  private readonly boxes = new Map<string, BoxLook | null>();
  private readonly lines = new Map<string, Ink | null>();
  private readonly scale: number;

  constructor(
    private readonly pen: Pen,
    private readonly scene: Scene,
    private readonly marks: Marks,
    private readonly inks: Pick<Inks, "of">,
    private readonly place: Place2D,
  ) {
    this.scale = place.k / place.ratio;
  }

  /** Draw edges, those with the same look in one path. */
  edges(indices: readonly number[]): void {
    const { pen, scale } = this;
    const { ratio } = this.place;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    for (const [key, alike] of listsBy(indices, (i) => edgeKey(this.scene.edges[i], this.marks))) {
      const ink = this.lineInk(key, this.scene.edges[alike[0]]);
      if (!ink?.stroke) continue;
      pen.strokeStyle = ink.stroke;
      pen.lineWidth = seenWidth(ink.width, scale) * ratio;
      pen.globalAlpha = ink.opacity;
      pen.setLineDash(ink.dash.map((length) => seenWidth(length, scale) * ratio));
      pen.beginPath();
      for (const i of alike) this.trace(this.scene.edges[i].curve);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  nodes(indices: readonly number[]): void {
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    for (const [key, alike] of listsBy(indices, (i) => nodeKey(this.scene.nodes[i], this.marks))) {
      const look = this.boxLook(key, this.scene.nodes[alike[0]]);
      if (look) this.paintBoxes(alike, look);
    }
    if (this.marks.alarms) this.paintAlarms(indices);
  }

  private paintBoxes(indices: readonly number[], { ink, fills, radius }: BoxLook): void {
    const { pen, place, scale } = this;
    const solid = solidity(scale);
    const width = seenWidth(ink.width, scale) * place.ratio;
    const round = radius * scale > ROUND;
    pen.setLineDash(
      solid < 1 ? ink.dash.map((length) => seenWidth(length, scale) * place.ratio) : [],
    );
    pen.lineWidth = width;
    const paint = (colour: string | null, opacity: number, outline: boolean) => {
      if (colour === null || opacity === 0) return;
      pen.globalAlpha = ink.opacity * opacity;
      if (outline) pen.strokeStyle = colour;
      else pen.fillStyle = colour;
      for (const i of indices) {
        const { x, y, shape } = this.scene.nodes[i];
        const w = Math.max(LEAST * place.ratio, place.k * shape.width);
        const h = Math.max(LEAST * place.ratio, place.k * shape.height);
        const left = place.x + place.k * x - w / 2;
        const top = place.y + place.k * y - h / 2;
        if (round) {
          pen.beginPath();
          roundBox(pen, left, top, w, h, radius * place.k);
          if (outline) pen.stroke();
          else pen.fill();
        } else if (outline) pen.strokeRect(left, top, w, h);
        else pen.fillRect(left, top, w, h);
      }
    };
    paint(ink.fill, fills ? 1 - solid : 1, false);
    if (fills) paint(ink.stroke, solid, false);
    // An outline would hide the colour of the smallest boxes.
    paint(ink.stroke, fills || this.marks.tint || this.marks.tiles ? 1 - solid : 1, true);
  }

  private paintAlarms(indices: readonly number[]): void {
    const { pen, place } = this;
    const { alarms } = this.marks;
    const size = ALARM * place.ratio;
    for (const i of indices) {
      const alarm = alarms?.get(i);
      if (!alarm) continue;
      const name = alarm === "0" ? "gw-badge-alarm is-zero" : "gw-badge-alarm";
      const badge = this.inks.of("g", "gw-node")?.within({ tag: "g", attributes: { class: name } });
      const ink = badge?.within({ tag: "rect", attributes: {} })?.ink;
      if (!ink?.fill) continue;
      const { x, y, shape } = this.scene.nodes[i];
      pen.globalAlpha = 1;
      pen.fillStyle = ink.fill;
      pen.fillRect(
        place.x + place.k * (x - shape.width / 2) - size / 2,
        place.y + place.k * (y + shape.height / 2) - size / 2,
        size,
        size,
      );
    }
  }

  private trace(curve: Float64Array): void {
    const { pen } = this;
    const { k, x, y, ratio } = this.place;
    const straight = STRAIGHT * ratio;
    let [ax, ay] = [k * curve[0] + x, k * curve[1] + y];
    pen.moveTo(ax, ay);
    for (let i = 2; i < curve.length; i += 6) {
      const [bx, by] = [k * curve[i + 4] + x, k * curve[i + 5] + y];
      if (Number.isNaN(curve[i])) pen.moveTo(bx, by);
      else if (
        ax === bx ||
        ay === by ||
        (Math.abs(bx - ax) < straight && Math.abs(by - ay) < straight)
      )
        pen.lineTo(bx, by);
      else
        pen.bezierCurveTo(
          k * curve[i] + x,
          k * curve[i + 1] + y,
          k * curve[i + 2] + x,
          k * curve[i + 3] + y,
          bx,
          by,
        );
      [ax, ay] = [bx, by];
    }
  }

  /** Look up the style once per look. */
  private boxLook(key: string, node: SceneNode): BoxLook | null {
    return valueAt(this.boxes, key, () => {
      const well = this.inks.of("g", nodeClass(node, this.marks, NOBODY));
      const ink = well?.within({ tag: "rect", attributes: { class: "gw-box" } })?.ink;
      if (!ink) return null;
      const phase = node.quiet ? null : phaseOf(node, this.marks);
      const isHollow = node.quiet !== undefined || /waiting|ready|not/.test(phase ?? "");
      const isHit = this.marks.hits !== null && key.endsWith("hit");
      return {
        ink,
        fills: isHit || (!isHollow && tintOf(node, this.marks) === ""),
        radius: node.leaf ? Math.min(21, node.shape.height / 2) : node.quiet ? 9 : 5,
      };
    });
  }

  private lineInk(key: string, edge: SceneEdge): Ink | null {
    return valueAt(this.lines, key, () => {
      const well = this.inks.of("g", edgeClass(edge, this.scene, this.marks));
      return well?.within({ tag: "path", attributes: { class: "gw-line" } })?.ink ?? null;
    });
  }
}

/** A key shared by boxes that look alike; quicker than their classes. */
function nodeKey(node: SceneNode, marks: Marks): string {
  const { leaf, root, quiet, group } = node;
  const kind = quiet ?? `${root ? "root " : ""}${leaf ? "leaf" : group ? "group" : "op"}`;
  const phase = quiet ? "" : phaseOf(node, marks);
  const hit = marks.hits !== null && membersOf(node).some((id) => marks.hits?.has(id)) ? "hit" : "";
  return `${kind} ${phase} ${tintOf(node, marks)} ${hit}`;
}

function edgeKey(edge: SceneEdge, marks: Marks): string {
  const { quiet, merged, index } = edge;
  const many = merged && merged.count > 1 ? "many" : "";
  return quiet
    ? `${quiet} ${many}`
    : `${phaseOfEdge(edge, marks)} ${many} ${marks.tint?.edges[index] ?? ""}`;
}
