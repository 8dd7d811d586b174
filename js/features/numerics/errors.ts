import { type ColourLegend, logTicks, NOT_FINITE, tintOfNodes } from "../../colours/colouring";
import { type LogScale, logScale, stepOn } from "../../colours/scale";
import type { Pane } from "../../compare/united";
import { labelParts } from "../../paint/label_parts";
import type { Marks } from "../../paint/marks";
import { makePart, part } from "../../paint/parts";
import { membersOf } from "../../scene/members";
import { normOf } from "../../scene/parameters";
import { tagSize } from "../../scene/rank_strip";
import type { Scene, SceneNode } from "../../scene/scene";
import type { ErrorModel, ErrorsModel, JsonNumber } from "../../wire";

/** The most numbers to write; other nodes are still coloured. */
const MOST_NUMBERS = 400;

/** The least range of the scale, so that similar errors have similar colours. */
const LEAST_RANGE = 10;

/** The errors between two graphs, by place, with their colours. */
export interface Errors {
  of: ReadonlyMap<number, ErrorModel>;
  first: number | null;
  scale: LogScale | null;
}

export function readErrors(model: ErrorsModel): Errors {
  const scale = logScale(model.nodes.map(largest).filter((error) => error !== null));
  return {
    of: new Map(model.nodes.map((node) => [node.place, node])),
    first: model.first,
    scale: scale && { ...scale, least: Math.min(scale.least, scale.most / LEAST_RANGE) },
  };
}

/** The larger of the value's and the gradient's error; null if neither is known. */
function largest({ value, grad }: ErrorModel): number | null {
  const known = [value, grad].filter((error) => error !== null).map(normOf);
  return known.length > 0 ? Math.max(...known) : null;
}

/** Write an error with two digits. */
export function errorText(error: JsonNumber | null): string {
  if (error === null) return "–";
  const number = normOf(error);
  if (number === 0) return "0";
  return Number.isFinite(number) ? number.toExponential(1).replace("e-", "e−") : "∞";
}

/** The colours of a pane's nodes and their words; empty if all nodes are equal or nothing is known. */
export function errorTint(errors: Errors, pane: Pane, scene: Scene): Marks["tint"] {
  const errorOf = (node: SceneNode) => worstIn(errors, pane, node);
  const nodes = scene.nodes.map((node) => colourOf(errorOf(node), errors.scale));
  return tintOfNodes(scene, nodes, (node) => wordsOf(errorOf(node)));
}

/** The error that exceeds its tolerance, else the larger one. */
function outOf(model: ErrorModel): JsonNumber | null {
  const { leaves, value, grad } = model;
  return leaves === "value" ? value : leaves === "gradient" ? grad : largest(model);
}

function colourOf(model: ErrorModel | undefined, scale: LogScale | null): string {
  const error = model ? largest(model) : null;
  if (error === Number.POSITIVE_INFINITY) return NOT_FINITE;
  return error !== null && error > 0 && scale ? `is-c${stepOn(scale, error)}` : "";
}

function wordsOf(model: ErrorModel | undefined): string | null {
  if (!model) return null;
  const facts = [
    model.value !== null && `error of the value ${errorText(model.value)}`,
    model.grad !== null && `of the gradient ${errorText(model.grad)}`,
    model.leaves && `its ${model.leaves} is out of tolerance`,
  ];
  return facts.filter(Boolean).join(", ") || null;
}

/** The error of a node; of a closed box, the first out of tolerance or the largest. */
function worstIn({ of, first }: Errors, pane: Pane, node: SceneNode): ErrorModel | undefined {
  const models = membersOf(node).flatMap((id) => of.get(pane.place[id]) ?? []);
  const size = (model: ErrorModel) => (model.place === first ? Infinity : (largest(model) ?? -1));
  return models.sort((a, b) => size(b) - size(a))[0];
}

export function errorLegend({ scale, of }: Errors): ColourLegend {
  const isInfinite = [...of.values()].some((model) => largest(model) === Number.POSITIVE_INFINITY);
  return {
    title: "relative error, of value or gradient",
    isNamed: true,
    ticks: logTicks(scale, errorText),
    entries: isInfinite ? [{ name: NOT_FINITE, text: "infinite" }] : [],
  };
}

export function errorSigns(errors: Errors, pane: Pane, scene: Scene): SVGElement[] {
  const signs: SVGElement[] = [];
  for (const node of scene.nodes) {
    const model = worstIn(errors, pane, node);
    const error = model ? largest(model) : null;
    if (!model || error === null || (error === 0 && model.place !== errors.first)) continue;
    signs.push(sign(node, model, errors.first === model.place));
    if (signs.length === MOST_NUMBERS) break;
  }
  return signs;
}

function sign(node: SceneNode, model: ErrorModel, isFirst: boolean): SVGElement {
  const text = isFirst ? `first ${errorText(outOf(model))}` : errorText(largest(model));
  const size = tagSize(text);
  const x = node.x - node.shape.width / 2 - 6 + size.width / 2;
  const y = node.y - node.shape.height / 2 - node.shape.outline - 3;
  const name = `gw-error-sign${model.leaves ? " is-out" : ""}${isFirst ? " is-first" : ""}`;
  return makePart(part("g", { class: name }, labelParts({ x, y, ...size, text })));
}
