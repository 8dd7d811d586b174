import { flow, isHorizontal } from "../layout/direction";
import { edgesOf } from "../scene/members";
import type { CardParts, CardSize } from "../scene/node_shape";
import { extentOf, Obstacles, TEXT_HEIGHT, TEXT_PAD } from "../scene/obstacles";
import { parametersGradient } from "../scene/parameters";
import type { Place, Scene, SceneNode } from "../scene/scene";
import {
  addedTo,
  flowedAt,
  isOver,
  type Progress,
  type Recording,
  runningAt,
  storedNow,
} from "../steps/recording";
import {
  boardNumber,
  boardValues,
  exactly,
  exactText,
  gradientTexts,
  hasNotFinite,
} from "../text/gradient";
import type { Measure } from "../text/measure";
import { normText } from "../text/number";
import type { JsonNumber, Values } from "../wire";
import { type Marks, NO_MARKS } from "./marks";

/** A gradient written on the edge that carries it, or what a node holds of it, written beside the node. */
export interface GradientLabel extends Place {
  key: string;
  text: string;
  /** The same in full, for who points at it. */
  exact?: string;
  /** Whether it holds NaN or an infinity. */
  alarming: boolean;
  /** The edge that carries it; null beside a node. */
  edge: number | null;
  /** Ids of the nodes that it belongs to: both ends of the edge, or the one it stands beside. */
  nodes: readonly number[];
  /** How many steps have to run before it is there. */
  from: number;
  /** The kind of card in whose cell it stands. */
  cell?: CardSize | "row" | "sum" | "total" | "gate" | "lens";
  /** Whether it is set smaller than others in such a cell, as it is long. */
  small?: boolean;
  /** Whether it is a `.grad`. */
  stored?: boolean;
  /** Whether it is a product, of the gradient that arrived and the local derivative. */
  local?: boolean;
  /** Whether something has changed it since the pass. */
  changed?: boolean;
  /** What it is the sum of, where the pass added to what was there before. */
  added?: string;
  /** Whether it waits there for its node to run. */
  arrived?: boolean;
  /** Whether it is only told while a node runs that it belongs to: beside boxes, whose own number says more. */
  passing?: boolean;
}

/** Up to so many edges all gradients that have flowed stay written; in larger graphs only those at the running node. */
export const FEW_EDGES = 40;
const WIDEST = 128;
/** How much of a row its number may take. */
const ROW_SHARE = 0.55;
/** Where along an edge its gradient may sit, best first; near the node that it arrives at. */
const PLACES = [0.72, 0.62, 0.8, 0.52, 0.42, 0.32, 0.22];
/** The same of a local derivative. */
const MIDDLE_FIRST = [0.5, 0.42, 0.58, 0.34, 0.66, 0.25, 0.75];
/** Kept free around a node for the ring of the one that runs, px. */
const RING = 7;

/** Finds a place for every gradient of a run, clear of boxes and of all other texts. */
export function placeGradients(
  scene: Scene,
  recording: Recording,
  measure: Measure,
): GradientLabel[] {
  const { run, step, flows } = recording;
  if (run === null) return [];
  const obstacles = new Obstacles(scene, RING);
  const labels: GradientLabel[] = [];
  const keep = (place: Place | null, rest: Omit<GradientLabel, keyof Place>) => {
    if (!place) return;
    obstacles.add(place);
    labels.push({ ...rest, ...place });
  };
  const widthOf = (text: string) => measure(text, "gradient") + 2 * TEXT_PAD;
  for (const node of scene.nodes) {
    const label = cellLabel(node, recording, measure);
    if (label) labels.push(label);
    const sum = sumLabel(scene, node, recording, measure);
    if (sum) labels.push(sum);
    const passing = gateLabel(node, recording);
    if (passing) labels.push(passing);
  }
  labels.push(...lensLabels(scene, recording));
  run.edges.forEach((index, i) => {
    const edge = scene.edges[scene.edgeOf ? scene.edgeOf[index] : index];
    // Of an edge with plumbing folded into it, what arrives at its end; what was merged has no one gradient.
    if (!edge || edgesOf(edge).at(-1) !== index || (edge.merged?.count ?? 1) > 1) return;
    // A number is written once: the gradient of the only arrow into a card stands in the card.
    const target = scene.nodes[edge.target];
    if (target.gate || scene.nodes[edge.source].gate) return;
    if (recording.alone.has(index) && target.shape.card?.grad) return;
    const row = target.shape.card?.rows[edge.row ?? -1];
    if (row) {
      const few = fewOf(run.values[i], run.norms[i]).find(
        (text) => measure(text, "digits") < row.width * ROW_SHARE,
      );
      labels.push({
        ...{ x: target.x, y: target.y + row.y, width: row.width, height: row.height },
        ...{ key: `row ${index}`, text: few ?? "", edge: index, nodes: [target.id], cell: "row" },
        exact: exactText({ values: run.values[i], norm: run.norms[i] }),
        alarming: isAlarming(run.values[i], run.norms[i]),
        from: flows[index],
      });
      return;
    }
    if (target.shape.card?.sum) return;
    const texts = gradientTexts(run.values[i], run.norms[i], "");
    const options = texts.map((text) => ({ text, width: widthOf(text) }));
    const between = [scene.nodes[edge.source], target];
    const ends = between.map(({ id }) => id);
    const isBoxed = between.some(({ shape }) => shape.tile || shape.sign === "round");
    const passing = isBoxed && run.values[i] === null;
    for (const isFar of [false, true]) {
      for (const { text, width } of options) {
        if (width > WIDEST && texts.length > 1) continue;
        const place = obstacles.findOnEdge(edge, width, PLACES, isFar);
        if (!place) continue;
        keep(place, {
          key: `edge ${index}`,
          text,
          exact: exactText({ values: run.values[i], norm: run.norms[i] }),
          alarming: isAlarming(run.values[i], run.norms[i]),
          edge: index,
          nodes: ends,
          from: flows[index],
          ...(passing && { passing }),
        });
        return;
      }
    }
  });
  const beside = (
    id: number,
    word: string,
    values: Values | null,
    norm: JsonNumber | null,
    from: number,
    along: number,
  ) => {
    const texts = gradientTexts(values, norm, word);
    const text = texts.find((one) => widthOf(one) <= WIDEST) ?? texts.at(-1);
    if (text === undefined) return;
    for (const index of scene.drawn[id]) {
      if (scene.nodes[index].group || scene.nodes[index].shape.card?.grad) continue;
      keep(placeBeside(scene, scene.nodes[index], widthOf(text), along, obstacles), {
        key: `${word} ${index}`,
        text,
        alarming: isAlarming(values, norm),
        edge: null,
        nodes: [id],
        from,
      });
    }
  };
  for (const { node, values, norm } of run.seeds) beside(node, "seed", values, norm, 0, -1);
  for (const { node, values, norm } of run.grads)
    if (step[node] > 0) beside(node, "grad", values, norm, step[node], 1);
  for (const [index, [grad, local]] of recording.locals) {
    const edge = scene.edges[scene.edgeOf ? scene.edgeOf[index] : index];
    if (!edge || edgesOf(edge).length > 1 || !scene.nodes[edge.source].shape.card) continue;
    const text = `${boardNumber(grad)} \u00d7 ${boardNumber(local)}`;
    const found = [false, true]
      .map((crossing) => obstacles.findOnEdge(edge, widthOf(text), MIDDLE_FIRST, crossing))
      .find((place) => place !== null);
    keep(found ?? null, {
      ...{ key: `local ${index}`, text, alarming: false, edge: index, local: true },
      exact: `${exactly(grad)} \u00d7 ${exactly(local)}`,
      nodes: [scene.nodes[edge.source].id, scene.nodes[edge.target].id],
      from: flows[index],
    });
  }
  return labels;
}

/** The gradient of a node, in the cell of its card; null where there is none to be told. */
function cellLabel(
  { id, index, x, y, leaf, shape: { card } }: SceneNode,
  recording: Recording,
  measure: Measure,
): GradientLabel | null {
  const { gradients, stored, ready, step } = recording;
  const held = storedNow({ stored }, id);
  const gradient = held ?? gradients.get(id);
  if (!card?.grad || !gradient) return null;
  const { size, grad, rows } = card;
  const { values, norm } = gradient;
  const texts = fewOf(values, norm);
  const changed = held !== null && stored.get(id)?.changed === true;
  const isTotal = rows.length > 0;
  // Beside a total stands what it is.
  const word = isTotal ? measure(`${totalWord({ stored: held !== null, changed })} = `, "cell") : 0;
  const ends = (size === "full" && !isTotal ? 8 : 10) + (isTotal ? word + 8 : 0);
  const text = texts.find((one) => measure(one, "digits") < grad.width - ends) ?? texts.at(-1);
  if (text === undefined) return null;
  const small = size === "full" && measure(text, "number") >= grad.width - 8;
  return {
    ...{ x: x + grad.x, y: y + grad.y, width: grad.width, height: grad.height },
    ...{ key: `cell ${index}`, text, alarming: isAlarming(values, norm), edge: null, nodes: [id] },
    from: leaf ? step[id] : ready[id],
    cell: isTotal ? "total" : size,
    small,
    // What arrived at a leaf is not what its `.grad` holds, unless that is known.
    stored: held !== null,
    changed,
    // Not to what is gone since, either.
    ...addition(card, text, stored.get(id)?.changed ? null : addedTo(recording, id), measure),
  };
}

/** What the sum under the rows of a leaf is. */
export function totalWord({ stored, changed }: Pick<GradientLabel, "stored" | "changed">): string {
  return changed ? ".grad now" : stored ? ".grad" : "this pass";
}

/** The gradient that passes between a lens and something outside. */
function gateLabel(
  { id, index, x, y, gate, shape: { width } }: SceneNode,
  { gradients, ready, run, flows }: Recording,
): GradientLabel | null {
  if (!gate?.carries) return null;
  const { carries } = gate;
  const at = "edge" in carries ? (run?.edges.indexOf(carries.edge) ?? -1) : -1;
  const norm = "node" in carries ? gradients.get(carries.node)?.norm : run?.norms[at];
  if (norm === null || norm === undefined) return null;
  return {
    ...{ x, y: y - 8, width, height: TEXT_HEIGHT, key: `gate ${index}`, text: normWords(norm) },
    ...{ alarming: typeof norm === "string", edge: null, nodes: [id], cell: "gate" },
    from: "node" in carries ? ready[carries.node] : flows[carries.edge],
  };
}

/** The gradient of the parameters in each lens, in its head. */
function lensLabels({ frames }: Scene, recording: Recording): GradientLabel[] {
  return frames.flatMap(({ lens, left, top, path }) => {
    if (!lens) return [];
    const { norm, from } = parametersGradient(lens.leaves, recording);
    if (Number.isNaN(norm)) return [];
    const place = { x: left + lens.gradient.x, y: top + lens.gradient.y, width: 0, height: 0 };
    const text = normWords(norm);
    const alarming = norm === Number.POSITIVE_INFINITY;
    return [
      { ...place, key: `lens ${path}`, text, alarming, edge: null, nodes: [], from, cell: "lens" },
    ];
  });
}

function normWords(norm: JsonNumber): string {
  return `\u2016grad\u2016 ${normText(Number(norm))}`;
}

/** "4 + 12" beside the "16" of a `.grad`, where the pass added to what was there and there is room for it. */
function addition(
  { size, grad, rows }: CardParts,
  sum: string,
  parts: [number, number] | null,
  measure: Measure,
): Pick<GradientLabel, "added"> {
  if (!parts || !grad) return {};
  const [before, came] = parts;
  const added = `${boardNumber(before)} ${came < 0 ? "\u2212" : "+"} ${boardNumber(Math.abs(came))}`;
  if (rows.length === 0 && size === "full")
    return measure(added, "cell") < grad.width - 8 ? { added } : {};
  const words = rows.length > 0 ? `.grad ${added}` : added;
  const width = measure(words, "cell") + measure(`= ${sum}`, "digits");
  return width < grad.width - 20 ? { added } : {};
}

/** What can be said of a gradient in a cell, best first; a single number is never told without its sign. */
function fewOf(values: Values | null, norm: JsonNumber | null): string[] {
  const isOne = values !== null && !Array.isArray(values);
  return [
    ...(values === null ? [] : [boardValues(values)]),
    ...(norm === null || isOne ? [] : [`\u2016${boardNumber(norm)}\u2016`]),
  ];
}

/** How the shares of a node add up, "−6.9 − 6.9", in its card; null where that does not fit. */
function sumLabel(
  scene: Scene,
  { id, index, x, y, shape: { card } }: SceneNode,
  { run, ready }: Recording,
  measure: Measure,
): GradientLabel | null {
  if (!card?.sum || !run) return null;
  const shares: number[] = [];
  run.edges.forEach((edge, i) => {
    const drawn = scene.edges[scene.edgeOf ? scene.edgeOf[edge] : edge];
    const value = run.values[i];
    if (drawn?.target === index && edgesOf(drawn).at(-1) === edge && typeof value === "number")
      shares.push(value);
  });
  const text = shares
    .map((share, i) =>
      i === 0
        ? boardNumber(share)
        : `${share < 0 ? "\u2212" : "+"} ${boardNumber(Math.abs(share))}`,
    )
    .join(" ");
  if (shares.length < 2 || measure(text, "cell") > card.sum.width - 6) return null;
  const { sum } = card;
  return {
    ...{ x: x + sum.x, y: y + sum.y, width: sum.width, height: sum.height },
    ...{ key: `sum ${index}`, text, alarming: false, edge: null, nodes: [id] },
    from: ready[id],
    cell: "sum",
  };
}

/** Which of the labels are to be seen at the cursor. */
export function visibleGradients(
  labels: readonly GradientLabel[],
  scene: Scene,
  progress: Progress,
  { derivatives, selected }: Pick<Marks, "derivatives" | "selected"> = NO_MARKS,
): GradientLabel[] {
  const { recording, cursor } = progress;
  const running = isOver(progress) ? null : runningAt(recording, cursor);
  const few = scene.edges.length <= FEW_EDGES;
  const passes = isOver(progress) ? null : running;
  const isLocal = ({ local, nodes, edge }: GradientLabel) =>
    local === true &&
    flowedAt(recording, edge ?? 0, cursor) &&
    (derivatives || nodes[0] === passes || (selected !== null && nodes.includes(selected)));
  const products = labels.filter(isLocal);
  const written = new Set(products.map(({ edge }) => edge));
  const others = labels
    .filter(
      ({ edge, nodes, from, cell, local, passing }) =>
        !local &&
        (cell !== undefined || edge === null || !written.has(edge)) &&
        (edge === null ? from <= cursor : flowedAt(recording, edge, cursor)) &&
        ((few && !passing) ||
          cell !== undefined ||
          from === 0 ||
          (running !== null && nodes.includes(running))),
    )
    .map((label) => {
      const arrived = label.cell !== undefined && cursor < recording.step[label.nodes[0]];
      return arrived ? { ...label, arrived } : label;
    });
  return [...others, ...products];
}

/** The gradients to be seen at a cursor; their places are found once per scene and run. */
export class GradientLayer {
  private key: [Scene, Recording] | null = null;
  private labels: GradientLabel[] = [];

  constructor(private readonly measure: Measure) {}

  at(scene: Scene, marks: Marks): GradientLabel[] {
    const { progress } = marks;
    if (!progress) return [];
    const { recording } = progress;
    if (this.key?.[0] !== scene || this.key[1] !== recording) {
      this.key = [scene, recording];
      this.labels = placeGradients(scene, recording, this.measure);
    }
    return visibleGradients(this.labels, scene, progress, marks);
  }
}

/** A free place beside a node: above or below it, first where gradients leave it (`along` 1) or arrive (-1); else at a side. */
function placeBeside(
  scene: Scene,
  node: SceneNode,
  width: number,
  along: number,
  obstacles: Obstacles,
): Place | null {
  const height = TEXT_HEIGHT;
  const horizontal = isHorizontal(scene.direction);
  const { left, top, right, bottom } = extentOf(node, horizontal);
  const gap = RING + 1;
  const [dx, dy] = [gap + width / 2, gap + height / 2];
  const below = { x: node.x, y: bottom + dy };
  const above = { x: node.x, y: top - dy };
  const belowFirst = (horizontal ? 1 : flow(scene.direction)[1]) * along > 0;
  const places = [
    ...(belowFirst ? [below, above] : [above, below]),
    { x: right + dx, y: node.y },
    { x: left - dx, y: node.y },
  ].map((at) => ({ ...at, width, height }));
  for (const crossing of [false, true]) {
    const found = places.find((place) => obstacles.isFree(place, null, crossing));
    if (found) return found;
  }
  return null;
}

function isAlarming(values: Values | null, norm: JsonNumber | null): boolean {
  return typeof norm === "string" || (values !== null && hasNotFinite(values));
}
