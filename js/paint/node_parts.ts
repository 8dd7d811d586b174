import { FINE, isFine } from "../scene/fine";
import type { Text } from "../scene/node_shape";
import { onlyTag } from "../scene/rank_strip";
import type { SceneNode } from "../scene/scene";
import { STUB_RADIUS } from "../scene/shape";
import { closedParts, openSign } from "./frame_parts";
import { fewOf } from "./gradient_label";
import { CARD_RADIUS, labelParts } from "./label_parts";
import { mapNameParts } from "./level_of_detail";
import type { Marks } from "./marks";
import { type Part, part } from "./parts";
import { stepOf } from "./phases";
import { rankParts } from "./rank_strips";
import { barParts, tileAt, tileParts } from "./tiles";

/** Distance of the running node's ring, px. */
const RING = 5;
const QUIET_RADIUS = 9;
/** How far the background of a node that some ranks lack reaches beyond it, px. */
const HALO = 6;

/** The parts of a node, around its centre; marks are classes. With a name it is drawn from afar. */
export function nodeParts(node: SceneNode, name: string | null = null): Part[] {
  const { shape, root } = node;
  const { width, height, outline, flagHeight } = shape;
  const { card } = shape;
  const radius = radiusOf(node);
  const box = (name: string, grow: number, rounded: number) =>
    part("rect", {
      class: name,
      x: -width / 2 - grow,
      y: -height / 2 - grow,
      width: width + 2 * grow,
      height: height + 2 * grow,
      rx: rounded,
    });
  // The ring is first, so that it covers no stub.
  const isClosed = node.group && !node.bar;
  const sheets = isClosed && !shape.tile?.isLayer ? closedParts(width, height) : [];
  const ground =
    node.only === undefined ? [] : [box("gw-only-ground", outline + HALO, radius + HALO)];
  const parts = [...ground, ...sheets, box("gw-run-ring", outline + RING, radius + outline + RING)];
  for (const stub of name === null ? shape.stubs : []) {
    const [x1, y1, x2, y2] = stub.line;
    parts.push(
      part("g", { class: "gw-stub" }, [
        part("path", { d: `M${x1},${y1}L${x2},${y2}` }),
        part("circle", { cx: stub.x, cy: stub.y, r: STUB_RADIUS }),
        part("text", { x: stub.text.x, y: stub.text.y }, [
          part("tspan", { class: "gw-stub-argument" }, stub.argument),
          part("tspan", {}, stub.rest),
        ]),
      ]),
    );
  }
  parts.push(box("gw-focus-ring", outline + 4, radius + outline + 4));
  if (root && !card) parts.push(box("gw-outline", outline, radius + outline));
  parts.push(box("gw-box", 0, radius));
  if (name !== null) {
    return [...parts, ...mapNameParts(name)];
  }
  if (flagHeight > 0)
    parts.push(part("path", { class: "gw-flag", d: flagData(width, height, flagHeight, radius) }));
  for (const [x1, y1, x2, y2] of card?.rules ?? [])
    parts.push(part("path", { class: "gw-rule", d: `M${x1},${y1}L${x2},${y2}` }));
  card?.rows.forEach(({ y, width }, i) => {
    const at = { x: 8 - width / 2, y: y + 4, "text-anchor": "start" };
    parts.push(part("text", { class: "gw-text gw-text-cell", ...at }, node.rows?.[i] ?? ""));
  });
  if (card?.sign) {
    const { x, y, width, height } = card.sign;
    const at = { x: x - width / 2, y: y - height / 2, width, height, rx: height / 2 };
    parts.push(part("rect", { class: "gw-card-sign", ...at }));
  }
  if (shape.tile?.under)
    parts.push(
      part("path", { class: "gw-foot", d: footData(width, height, shape.tile.under, radius) }),
    );
  parts.push(...shape.texts.map(textPart), ...(node.fine ?? []).map(textPart));
  if (isClosed) parts.push(openSign(width, height));
  // A sign in a circle has no free side; its background shows it.
  if (node.only !== undefined && !node.isStated && !shape.sign)
    parts.push(onlyPart(node, node.only));
  return node.quiet || node.bar ? parts : [...parts, ...badges(node)];
}

/** The parts of the marks on a node; those that are legible from afar, if it is drawn so. */
export function markParts(node: SceneNode, marks: Marks, isFar = false): Part[] {
  const bar = barParts(node, marks, isFar);
  const alarm = alarmParts(node, marks.alarms?.get(node.index) ?? "");
  if (isFar) return [...bar, ...alarm];
  const tile = tileParts(node, tileAt(node, marks)?.text ?? null);
  return [
    ...tile,
    ...bar,
    ...rankParts(node, marks),
    ...alarm,
    ...stepParts(node, stepOf(node, marks)),
    ...fineGradParts(node, marks),
  ];
}

function textPart({ text, style, x, y, anchor, head, foot }: Text): Part {
  const place = head ? " gw-text-head" : foot ? " gw-text-foot" : "";
  const name = `gw-text gw-text-${style}${place}`;
  return part("text", { class: name, "text-anchor": anchor, x, y }, text);
}

/** The incoming gradient of an operation that is drawn as its sign, to be read from close, once it has come. */
function fineGradParts({ id, shape, fine = [] }: SceneNode, { progress }: Marks): Part[] {
  const gradient = progress?.recording.gradients.get(id);
  if (!progress || !gradient || shape.sign !== "plain") return [];
  if (progress.recording.ready[id] > progress.cursor) return [];
  const value = fine.find(({ y }) => y > 0)?.text;
  const room = shape.width - 2 * FINE.aside;
  const texts = fewOf(gradient);
  const text = texts.find((one) => isFine(value ? `${value} ${one}` : one, room));
  if (text === undefined) return [];
  const at = { x: shape.width / 2 - FINE.aside, y: shape.height / 2 - FINE.over };
  const name = "gw-text gw-text-fine gw-fine-grad";
  return [part("text", { class: name, "text-anchor": "end", ...at }, text)];
}

/** A sign with the ranks that have a node. */
function onlyPart({ shape }: SceneNode, words: string): Part {
  return part("g", { class: "gw-only-tag" }, labelParts({ ...onlyTag(shape, words), text: words }));
}

/** How round the corners of a node are, px. */
function radiusOf({ shape, leaf, root, quiet, bar }: SceneNode): number {
  const { card, height, width } = shape;
  if (bar) return Math.min(5, width / 4, height / 4);
  if (quiet) return QUIET_RADIUS;
  if (shape.sign === "round") return height / 2;
  if (card) return CARD_RADIUS;
  return !leaf ? 5 : root ? 14 : Math.min(height / 2, 21);
}

/** A strip along the top of the box, with its rounded corners. */
function flagData(width: number, height: number, flag: number, radius: number): string {
  const [x, y, r] = [width / 2, -height / 2, Math.min(radius, flag)];
  return `M${-x},${y + flag}V${y + r}Q${-x},${y} ${-x + r},${y}H${x - r}Q${x},${y} ${x},${y + r}V${y + flag}Z`;
}

/** Half of the outline stays visible. */
const INSET = 0.6;

/** A strip along the foot of the box, with its rounded corners. */
function footData(width: number, height: number, foot: number, radius: number): string {
  const [x, y, r] = [width / 2 - INSET, height / 2 - INSET, radius - INSET];
  return `M${-x},${height / 2 - foot}H${x}V${y - r}Q${x},${y} ${x - r},${y}H${-x + r}Q${-x},${y} ${-x},${y - r}Z`;
}

/** The badges for an incoming gradient and for freed buffers; style sheets show them when they apply. */
function badges({ leaf, root, shape: { width, height, card } }: SceneNode): Part[] {
  const x = width / 2 - 2;
  const y = height / 2 - 1;
  const pill = leaf && !root && !card;
  const badge = (name: string, at: string, mark: string) =>
    part("g", { class: name, transform: `translate(${at})` }, [
      part("circle", { r: 6.5 }),
      part("path", { d: mark }),
    ]);
  const corner = pill ? `${width / 2 - 8},${4 - height / 2}` : `${x},${-y}`;
  return [
    badge("gw-badge-reached", corner, GRADIENT_MARK),
    badge("gw-badge-freed", `${x},${y}`, FREED_MARK),
  ];
}

/** The widest badge that hangs on a corner; a wider one grows inwards. */
const BADGE_OUT = 24;

/** The number of a node's step, on its corner; nothing for "". */
function stepParts({ leaf, root, shape: { width, height } }: SceneNode, text: string): Part[] {
  if (text === "") return [];
  const wide = 8 + 6 * text.length;
  const left = Math.min(0, BADGE_OUT - wide);
  const top = (leaf && !root ? 4 : -1) - height / 2;
  return [
    part("g", { class: "gw-badge-step", transform: `translate(${width / 2 - 5},${top})` }, [
      part("rect", { x: left, y: -7, width: wide, height: 14, rx: 7 }),
      part("text", { x: left + wide / 2, y: 3.4 }, text),
    ]),
  ];
}

/** The problem of a node's gradients, on its lower left corner; nothing for "". */
function alarmParts({ shape: { width, height } }: SceneNode, alarm: string): Part[] {
  if (alarm === "") return [];
  const wide = 8 + 6.5 * alarm.length;
  const name = alarm === "0" ? "gw-badge-alarm is-zero" : "gw-badge-alarm";
  return [
    part("g", { class: name, transform: `translate(${-width / 2 + 2},${height / 2})` }, [
      part("rect", { x: 0, y: -7, width: wide, height: 14, rx: 3 }),
      part("text", { x: wide / 2, y: 3.6 }, alarm),
    ]),
  ];
}

/** A nabla, the sign of a gradient. */
export const GRADIENT_MARK = "M-3.4,-2.4H3.4L0,3.6Z";
/** An empty box, struck out. */
export const FREED_MARK = "M-3.3,-3.3H3.3V3.3H-3.3ZM-5,5L5,-5";
