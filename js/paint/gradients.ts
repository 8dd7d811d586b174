import { Remembered } from "../dom/remembered";
import { flow, isHorizontal } from "../layout/direction";
import { valueAt } from "../maps";
import type { Place } from "../scene/grid";
import { edgeFor, edgesOf } from "../scene/members";
import type { CardParts } from "../scene/node_shape";
import { extentOf, Obstacles, TEXT_HEIGHT, TEXT_PAD } from "../scene/obstacles";
import type { Scene, SceneNode } from "../scene/scene";
import {
  addedTo,
  flowedAt,
  isOver,
  type Progress,
  passedIn,
  type Recording,
  runningAt,
  storedNow,
} from "../steps/recording";
import { boardNumber, exactly, exactText, gradientTexts, isAlarming } from "../text/gradient";
import type { Measure } from "../text/measure";
import type { FewModel, RunModel } from "../wire";
import { asAdded, fewOf, type GradientLabel } from "./gradient_label";
import { type Marks, NO_MARKS } from "./marks";
import { stripNotes } from "./strip_notes";

/** The most edges with all gradients written; in larger graphs only those at the running node. */
export const FEW_EDGES = 40;
const WIDEST = 128;
/** The fewest digits of a number on a line. */
const LEAST_DIGITS = 3;
/** The share of a row for its number. */
const ROW_SHARE = 0.55;
/** A row's margin, and the least room between its words and its number, px. */
const ROW_RIM = 8;
const ROW_GAP = 7;
/** Positions of a gradient along its edge, best first; near the node that receives it. */
const PLACES = [0.72, 0.62, 0.8, 0.52, 0.42, 0.32, 0.22];
/** Positions of a local derivative. */
const MIDDLE_FIRST = [0.5, 0.42, 0.58, 0.34, 0.66, 0.25, 0.75];
/** Room around a node for a ring, px. */
const RING = 7;

/**
 * Place every gradient of a run, clear of boxes and other texts, in three parts as needed: in cells and at seeds; on
 * edges and beside leaves; local derivatives.
 */
export function* gradientsPlaced(
  scene: Scene,
  recording: Recording,
  measure: Measure,
): Generator<GradientLabel[], void, void> {
  const { run, step } = recording;
  if (run === null) return;
  const placer = new LabelPlacer(scene, recording, run, measure);
  placer.inCells();
  const along = placer.inRows();
  for (const seed of run.seeds) placer.beside(seed, "starts with", 0, -1);
  yield placer.take();
  for (const i of along) placer.onEdge(i);
  for (const grad of run.grads)
    if (step[grad.node] > 0) placer.beside(grad, "grad", step[grad.node], 1);
  yield placer.take();
  for (const [index, [grad, local]] of recording.locals) placer.product(index, grad, local);
  yield placer.take();
}

/** Place gradients one by one, and remember the used places. */
class LabelPlacer {
  private obstacles: Obstacles | null = null;
  private labels: GradientLabel[] = [];
  /** By the index of a drawn node, the number of seeds in it. */
  private readonly seedsAt = new Map<number, number>();

  constructor(
    private readonly scene: Scene,
    private readonly recording: Recording,
    private readonly run: RunModel,
    private readonly measure: Measure,
  ) {
    for (const index of run.seeds.flatMap(({ node }) => scene.drawn[node]))
      this.seedsAt.set(index, (this.seedsAt.get(index) ?? 0) + 1);
  }

  /** The labels since the last call. */
  take(): GradientLabel[] {
    return this.labels.splice(0);
  }

  /** Place gradients that have a cell in a node or a frame. */
  inCells(): void {
    const { scene, recording, measure, labels } = this;
    for (const node of scene.nodes)
      for (const label of [
        cellLabel(node, recording, measure),
        beforeLabel(node, recording, measure),
        sumLabel(scene, node, recording, measure),
      ])
        if (label) labels.push(label);
  }

  /** Place gradients in leaves' rows; returns those for edges, by their indices in the run. */
  inRows(): number[] {
    const { scene, recording, run, measure } = this;
    const along: number[] = [];
    run.edges.forEach((index, i) => {
      const edge = edgeFor(scene, index);
      // An edge with folded plumbing shows the gradient at its end; merged edges have several.
      if (!edge || edgesOf(edge).at(-1) !== index || (edge.merged?.count ?? 1) > 1) return;
      // A number is written once: a card shows the gradient of its only arrow.
      const target = scene.nodes[edge.target];
      if (recording.alone.has(index) && target.shape.card?.grad) return;
      const share = target.use === index && shareLabel(target, passedIn(run, i), measure);
      if (share) {
        this.labels.push({ ...share, key: `share ${target.index}`, edge: index, ...this.facts(i) });
        return;
      }
      const row = target.shape.card?.rows[edge.row ?? -1];
      if (row) this.labels.push(this.rowLabel(i, target, edge.row ?? 0, row));
      else if (!target.shape.card?.sum) along.push(i);
    });
    return along;
  }

  /** A gradient on its edge, where it is free. */
  onEdge(i: number): void {
    const { scene, run } = this;
    const index = run.edges[i];
    const edge = edgeFor(scene, index);
    if (!edge) return;
    const passed = passedIn(run, i);
    // With fewer digits, equal neighbours would differ, and others would not.
    const texts = fewOf(passed, Array.isArray(passed.values) ? 2 : LEAST_DIGITS);
    const between = [scene.nodes[edge.source], scene.nodes[edge.target]];
    const isBoxed = between.some(({ shape }) => shape.tile || shape.sign === "round");
    const passing = isBoxed && run.values[i] === null;
    const rest = {
      key: `edge ${index}`,
      ...this.facts(i),
      edge: index,
      nodes: between.map(({ id }) => id),
      ...(passing && { passing }),
    };
    // A number apart from its line seems to belong to none, except past the argument that is written on it.
    const isNamed = edge.label && !between.some(({ shape }) => shape.tile || shape.sign);
    const places = isNamed ? (["touching", "far"] as const) : (["touching"] as const);
    places.some((where) =>
      texts.some((text) => {
        const width = this.widthOf(text);
        const find = (among: Obstacles) => among.findOnEdge(edge, width, PLACES, where);
        return width <= WIDEST && this.keep(find, { ...rest, text });
      }),
    );
  }

  /** A gradient beside a node; a seed, with no step before it, also beside a closed box. */
  beside(given: FewModel & { node: number }, word: string, from: number, along: number): void {
    const { scene } = this;
    const isSeed = from === 0;
    const drawn = scene.drawn[given.node].filter((index) => {
      const { group, bar, shape, isCopy } = scene.nodes[index];
      if (isCopy && !isSeed) return false;
      const isFree = !group || (isSeed && !bar && this.seedsAt.get(index) === 1);
      return isFree && !shape.card?.grad;
    });
    if (drawn.length === 0) return;
    const texts = gradientTexts(given, word);
    const text = texts.find((one) => this.widthOf(one) <= WIDEST) ?? texts.at(-1);
    if (text === undefined) return;
    const width = this.widthOf(text);
    const alarming = isAlarming(given);
    for (const index of drawn)
      this.keep((among) => placeBeside(scene, scene.nodes[index], width, along, among), {
        ...{ key: `${word} ${index}`, text, alarming, edge: null, nodes: [given.node], from },
      });
  }

  /** The incoming gradient times the local derivative, beside its edge. */
  product(index: number, grad: number, local: number): void {
    const { scene } = this;
    const edge = edgeFor(scene, index);
    if (!edge || edgesOf(edge).length > 1 || !scene.nodes[edge.source].shape.card) return;
    const text = `${boardNumber(grad)} \u00d7 ${boardNumber(local)}`;
    const width = this.widthOf(text);
    this.keep(
      (among) =>
        among.findOnEdge(edge, width, MIDDLE_FIRST, "beside") ??
        among.findOnEdge(edge, width, MIDDLE_FIRST, "far"),
      {
        ...{ key: `local ${index}`, text, alarming: false, edge: index, local: true },
        exact: `${exactly(grad)} \u00d7 ${exactly(local)}`,
        nodes: [scene.nodes[edge.source].id, scene.nodes[edge.target].id],
        from: this.recording.flows[index],
      },
    );
  }

  private rowLabel(
    i: number,
    { x, y, id, rows = [] }: SceneNode,
    place: number,
    row: Pick<Place, "y" | "width" | "height">,
  ): GradientLabel {
    const { run, measure } = this;
    const index = run.edges[i];
    const beside = row.width - 2 * ROW_RIM - ROW_GAP - measure(rows[place] ?? "", "cell");
    const texts = fewOf(passedIn(run, i))
      .map((text) => (place > 0 ? asAdded(text) : text))
      .filter((text) => measure(text, "digits") < row.width * ROW_SHARE);
    const few = texts.find((text) => measure(text, "digits") <= beside) ?? texts.at(-1);
    return {
      ...{ x, y: y + row.y, width: row.width, height: row.height },
      ...{ key: `row ${index}`, text: few ?? "", edge: index, nodes: [id], cell: "row" },
      ...this.facts(i),
    };
  }

  /** The properties of an edge's label, by the edge's index in the run. */
  private facts(i: number): Pick<GradientLabel, "alarming" | "from"> & { exact: string } {
    const { run, recording } = this;
    const passed = passedIn(run, i);
    return {
      exact: exactText(passed),
      alarming: isAlarming(passed),
      from: recording.flows[run.edges[i]],
    };
  }

  private widthOf(text: string): number {
    return this.measure(text, "gradient") + 2 * TEXT_PAD;
  }

  /** Keep a place; false if there is none. */
  private keep(
    find: (obstacles: Obstacles) => Place | null,
    rest: Omit<GradientLabel, keyof Place>,
  ): boolean {
    this.obstacles ??= obstaclesOf(this.scene);
    const place = find(this.obstacles);
    if (!place) return false;
    this.obstacles.add(place);
    this.labels.push({ ...rest, ...place });
    return true;
  }
}

/** A scene's obstacles, shared by all pictures with the same places. */
const knownObstacles = new WeakMap<Scene["edges"], Obstacles>();

function obstaclesOf(scene: Scene): Obstacles {
  return valueAt(knownObstacles, scene.edges, () => new Obstacles(scene, RING)).bare();
}

/** The labels that are visible at the cursor. */
export function visibleGradients(
  labels: readonly GradientLabel[],
  scene: Scene,
  progress: Progress,
  { derivatives, selected }: Pick<Marks, "derivatives" | "selected"> = NO_MARKS,
): GradientLabel[] {
  const { recording, cursor } = progress;
  const running = isOver(progress) ? null : runningAt(recording, cursor);
  const few = hasFew(scene);
  const passes = isOver(progress) ? null : running;
  const isLocal = ({ local, nodes, edge }: GradientLabel) =>
    local === true &&
    flowedAt(recording, edge ?? 0, cursor) &&
    (derivatives || nodes[0] === passes || (selected !== null && nodes.includes(selected)));
  const products = labels.filter(isLocal);
  const written = new Set(products.map(({ edge }) => edge));
  const others = labels
    .filter(
      ({ edge, nodes, from, until, cell, local, passing }) =>
        !local &&
        (cell !== undefined || edge === null || !written.has(edge)) &&
        (edge === null
          ? from <= cursor && cursor < (until ?? Number.POSITIVE_INFINITY)
          : flowedAt(recording, edge, cursor)) &&
        ((few && !passing) ||
          cell !== undefined ||
          from === 0 ||
          (running !== null && nodes.includes(running))),
    )
    .map((label) => {
      const arrived =
        label.cell !== undefined &&
        label.until === undefined &&
        cursor < recording.step[label.nodes[0]];
      return arrived ? { ...label, arrived } : label;
    });
  return [...others, ...products];
}

/** The visible gradients at a cursor; places are found once per scene and run. */
export class GradientLayer {
  private readonly placedFor = new Remembered();
  private placed: Iterator<GradientLabel[]> = [].values();
  private parts = 0;
  private labels: GradientLabel[] = [];

  constructor(private readonly measure: Measure) {}

  at(scene: Scene, marks: Marks): GradientLabel[] {
    const { progress, held } = marks;
    if (this.placedFor.isNew(scene, progress?.recording ?? held)) {
      this.parts = 0;
      this.labels = progress ? [] : heldLabels(scene, held, this.measure);
      if (progress) this.placed = gradientsPlaced(scene, progress.recording, this.measure);
    }
    if (!progress) return [...this.labels, ...stripNotes(scene, marks, this.measure)];
    for (const wanted = partsSeen(scene, progress, marks); this.parts < wanted; this.parts++)
      this.labels = this.labels.concat(this.placed.next().value ?? []);
    return visibleGradients(this.labels, scene, progress, marks);
  }
}

/** The number of parts that are visible at the cursor. */
function partsSeen(scene: Scene, progress: Progress, { derivatives, selected }: Marks): number {
  if (derivatives || selected !== null || !isOver(progress)) return 3;
  return hasFew(scene) ? 2 : 1;
}

/** Whether lines have numbers at rest: among boxes with their own numbers, a single one would seem to be special. */
function hasFew({ edges, nodes }: Scene): boolean {
  const boxes = nodes.filter(({ shape, bar }) => shape.tile || bar).length;
  return edges.length <= FEW_EDGES && 2 * boxes <= nodes.length;
}

/**
 * A free place above or below a node, first where gradients leave (`along` 1) or enter (-1); else beside it. One inside of
 * the picture is better than one outside.
 */
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
  const isInside = ({ x, y }: Place) =>
    Math.abs(2 * x - scene.width) <= scene.width - width &&
    Math.abs(2 * y - scene.height) <= scene.height - height;
  for (const among of [places.filter(isInside), places])
    for (const crossing of [false, true]) {
      const found = among.find((place) => obstacles.isFree(place, null, crossing));
      if (found) return found;
    }
  return null;
}

/** A node's gradient in the cell of its card; null for none. */
function cellLabel(node: SceneNode, recording: Recording, measure: Measure): GradientLabel | null {
  const { id, leaf, shape, isCopy } = node;
  if (isCopy) return null;
  const { gradients, stored, ready, step } = recording;
  const held = storedNow({ stored }, id);
  const gradient = held ?? gradients.get(id);
  const changed = stored.get(id)?.changed === true;
  // A leaf's incoming gradient is not its `.grad`, unless that is known.
  const kind = { stored: held !== null, changed: held !== null && changed };
  const found = gradient && inCell(node, gradient, kind, measure);
  if (!found || !shape.card) return null;
  // The addition does not hold if `.grad` changed since.
  const parts = changed ? null : addedTo(recording, id);
  return { ...found, from: leaf ? step[id] : ready[id], ...addition(shape.card, parts, measure) };
}

/** A leaf's `.grad` before the pass adds to it; null if unknown. */
function beforeLabel(
  node: SceneNode,
  { stored, step }: Recording,
  measure: Measure,
): GradientLabel | null {
  const { id, index, leaf } = node;
  const { card } = node.shape;
  const held = stored.get(id);
  if (!leaf || !card || !held || held.changed || node.isCopy) return null;
  const found = inCell(node, held.before, { stored: held.before !== null }, measure);
  return found && { ...found, key: `before ${index}`, from: 0, until: step[id] };
}

/** The leaves' `.grad` while no pass is shown. */
function heldLabels(
  { nodes }: Scene,
  held: ReadonlyMap<number, FewModel>,
  measure: Measure,
): GradientLabel[] {
  return nodes.flatMap((node) => {
    const gradient = node.isCopy ? null : held.get(node.id);
    const found = gradient && inCell(node, gradient, { stored: true }, measure);
    return found ? { ...found, from: 0 } : [];
  });
}

/** A gradient in the cell of a node's card, "None" for null; null without a cell. */
function inCell(
  { id, index, x, y, leaf, shape: { card, height } }: SceneNode,
  gradient: FewModel | null,
  { stored = false, changed = false }: { stored?: boolean; changed?: boolean },
  measure: Measure,
): Omit<GradientLabel, "from"> | null {
  if (!card?.grad) return null;
  const { size, rows, grad, isNamed } = card;
  const texts = gradient ? fewOf(gradient) : ["None"];
  const ofCopies = rows.length === 1;
  const ends = size === "full" ? 3 : 7 + (ofCopies ? measure("Σ ", "digits") : 0);
  const text =
    texts.find((one) => measure(one, "digits") <= grad.width - ends) ?? texts.at(-1) ?? "";
  const isLarge = size === "full" && !ofCopies && gradient !== null;
  return {
    ...{ x: x + grad.x, y: y + grad.y, width: grad.width, height: grad.height },
    ...{ key: `cell ${index}`, text, edge: null, nodes: [id] },
    alarming: gradient !== null && isAlarming(gradient),
    cell: ofCopies ? "near" : size,
    small: size === "full" && !(isLarge && measure(text, "number") <= grad.width - 8),
    ...{ stored, changed, none: gradient === null, zero: gradient?.norm === 0 },
    ...{ word: leaf ? "grad" : "", isLow: isNamed && !ofCopies },
    rounds: [grad.y - grad.height / 2 < 1 - height / 2, grad.y + grad.height / 2 > height / 2 - 1],
    ...(ofCopies && { ofCopies }),
  };
}

/** The share of one use of a leaf, in its row or the cell of its card; null without one. */
function shareLabel(node: SceneNode, gradient: FewModel, measure: Measure) {
  const { card } = node.shape;
  const [row] = card?.rows ?? [];
  if (!card || !row) {
    const found = inCell(node, gradient, {}, measure);
    return found && { ...found, word: "" };
  }
  const part = { rows: [], grad: row, size: "near" as const, isNamed: false };
  const shape = { ...node.shape, card: { ...card, ...part } };
  const found = inCell({ ...node, shape }, gradient, {}, measure);
  return found && { ...found, cell: "share" as const };
}

/** ".grad 4 + 12" over the "16" of a `.grad`, if the pass added to an earlier value and there is room; or without ".grad". */
function addition(
  { grad }: CardParts,
  parts: [number, number] | null,
  measure: Measure,
): Pick<GradientLabel, "added"> {
  if (!parts || !grad) return {};
  const [before, came] = parts;
  const sum = `${boardNumber(before)} ${asAdded(boardNumber(came))}`;
  const added = [`.grad ${sum}`, sum].find((words) => measure(words, "cell") <= grad.width - 6);
  return added === undefined ? {} : { added };
}

/** The texts of a sum, best first: with all digits, then with as many decimals at each number, unless one gets 0. */
export function sumsOf(shares: readonly number[]): string[] {
  const rounded = [3, 2, 1]
    .map((decimals) => shares.map((share) => Number(share.toFixed(decimals))))
    .filter((some) => some.every((one, i) => one !== 0 || shares[i] === 0));
  return [shares, ...rounded].map((some) =>
    some.map((one, i) => (i === 0 ? boardNumber(one) : asAdded(boardNumber(one)))).join(" "),
  );
}

/** The sum of a node's shares, "−6.9 − 6.9", in its card; null if it does not fit. */
function sumLabel(
  scene: Scene,
  { id, index, x, y, shape: { card } }: SceneNode,
  { run, ready }: Recording,
  measure: Measure,
): GradientLabel | null {
  if (!card?.sum || !run) return null;
  const shares: number[] = [];
  run.edges.forEach((edge, i) => {
    const drawn = edgeFor(scene, edge);
    const value = run.values[i];
    if (drawn?.target === index && edgesOf(drawn).at(-1) === edge && typeof value === "number")
      shares.push(value);
  });
  const { sum } = card;
  const text = sumsOf(shares).find((one) => measure(one, "cell") <= sum.width - 14);
  if (shares.length < 2 || text === undefined) return null;
  return {
    ...{ x: x + sum.x, y: y + sum.y, width: sum.width, height: sum.height },
    ...{
      key: `sum ${index}`,
      text,
      exact: shares.map(exactly).join(" + "),
      alarming: false,
      edge: null,
      nodes: [id],
    },
    from: ready[id],
    cell: "sum",
  };
}
