import { Remembered } from "../dom/remembered";
import { flow, isHorizontal } from "../layout/direction";
import { edgesOf } from "../scene/members";
import { extentOf, Obstacles, TEXT_HEIGHT, TEXT_PAD } from "../scene/obstacles";
import { parametersGradient } from "../scene/parameters";
import type { Place, Scene, SceneNode } from "../scene/scene";
import { flowedAt, isOver, type Progress, type Recording, runningAt } from "../steps/recording";
import { boardNumber, exactly, exactText, gradientTexts } from "../text/gradient";
import type { Measure } from "../text/measure";
import { normText } from "../text/number";
import type { JsonNumber, Values } from "../wire";
import { beforeLabel, cellLabel, heldLabels, sumLabel } from "./cell_labels";
import { asAdded, fewOf, type GradientLabel, isAlarming } from "./gradient_label";
import { type Marks, NO_MARKS } from "./marks";

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
  return [...gradientsPlaced(scene, recording, measure)].flat();
}

/**
 * The same in three parts, so that what is not seen need not be placed: what stands in cells, with the seeds, which is
 * seen all the time; what flows along edges and what leaves hold beside them; and local derivatives.
 */
function* gradientsPlaced(
  scene: Scene,
  recording: Recording,
  measure: Measure,
): Generator<GradientLabel[], void, void> {
  const { run, step, flows } = recording;
  if (run === null) return;
  let obstacles: Obstacles | null = null;
  let labels: GradientLabel[] = [];
  /** Keeps a place that is found. */
  const keep = (
    find: (obstacles: Obstacles) => Place | null,
    rest: Omit<GradientLabel, keyof Place>,
  ) => {
    obstacles ??= obstaclesOf(scene);
    const place = find(obstacles);
    if (!place) return false;
    obstacles.add(place);
    labels.push({ ...rest, ...place });
    return true;
  };
  const widthOf = (text: string) => measure(text, "gradient") + 2 * TEXT_PAD;
  const beside = (
    id: number,
    word: string,
    values: Values | null,
    norm: JsonNumber | null,
    from: number,
    along: number,
  ) => {
    const drawn = scene.drawn[id].filter(
      (index) => !scene.nodes[index].group && !scene.nodes[index].shape.card?.grad,
    );
    if (drawn.length === 0) return;
    const texts = gradientTexts(values, norm, word);
    const text = texts.find((one) => widthOf(one) <= WIDEST) ?? texts.at(-1);
    if (text === undefined) return;
    for (const index of drawn)
      keep((among) => placeBeside(scene, scene.nodes[index], widthOf(text), along, among), {
        key: `${word} ${index}`,
        text,
        alarming: isAlarming(values, norm),
        edge: null,
        nodes: [id],
        from,
      });
  };
  for (const node of scene.nodes) {
    const label = cellLabel(node, recording, measure);
    if (label) labels.push(label);
    const before = beforeLabel(node, recording, measure);
    if (before) labels.push(before);
    const sum = sumLabel(scene, node, recording, measure);
    if (sum) labels.push(sum);
    const passing = gateLabel(node, recording);
    if (passing) labels.push(passing);
  }
  labels.push(...lensLabels(scene, recording));
  /** Gradients along edges that stand in no cell: their places in the edges of the run. */
  const along: number[] = [];
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
      const few = fewOf(run.values[i], run.norms[i])
        .map((text) => ((edge.row ?? 0) > 0 ? asAdded(text) : text))
        .find((text) => measure(text, "digits") < row.width * ROW_SHARE);
      labels.push({
        ...{ x: target.x, y: target.y + row.y, width: row.width, height: row.height },
        ...{ key: `row ${index}`, text: few ?? "", edge: index, nodes: [target.id], cell: "row" },
        exact: exactText({ values: run.values[i], norm: run.norms[i] }),
        alarming: isAlarming(run.values[i], run.norms[i]),
        from: flows[index],
      });
    } else if (!target.shape.card?.sum) along.push(i);
  });
  for (const { node, values, norm } of run.seeds) beside(node, "seed", values, norm, 0, -1);
  yield labels;
  labels = [];
  for (const i of along) {
    const index = run.edges[i];
    const edge = scene.edges[scene.edgeOf ? scene.edgeOf[index] : index];
    const texts = gradientTexts(run.values[i], run.norms[i], "");
    const options = texts.map((text) => ({ text, width: widthOf(text) }));
    const between = [scene.nodes[edge.source], scene.nodes[edge.target]];
    const isBoxed = between.some(({ shape }) => shape.tile || shape.sign === "round");
    const passing = isBoxed && run.values[i] === null;
    const rest = {
      key: `edge ${index}`,
      exact: exactText({ values: run.values[i], norm: run.norms[i] }),
      alarming: isAlarming(run.values[i], run.norms[i]),
      edge: index,
      nodes: between.map(({ id }) => id),
      from: flows[index],
      ...(passing && { passing }),
    };
    (["on", "far"] as const).some((where) =>
      options.some(
        ({ text, width }) =>
          (width <= WIDEST || texts.length === 1) &&
          keep((among) => among.findOnEdge(edge, width, PLACES, where), { ...rest, text }),
      ),
    );
  }
  for (const { node, values, norm } of run.grads)
    if (step[node] > 0) beside(node, "grad", values, norm, step[node], 1);
  yield labels;
  labels = [];
  for (const [index, [grad, local]] of recording.locals) {
    const edge = scene.edges[scene.edgeOf ? scene.edgeOf[index] : index];
    if (!edge || edgesOf(edge).length > 1 || !scene.nodes[edge.source].shape.card) continue;
    const text = `${boardNumber(grad)} \u00d7 ${boardNumber(local)}`;
    keep(
      (among) =>
        among.findOnEdge(edge, widthOf(text), MIDDLE_FIRST, "beside") ??
        among.findOnEdge(edge, widthOf(text), MIDDLE_FIRST, "far"),
      {
        ...{ key: `local ${index}`, text, alarming: false, edge: index, local: true },
        exact: `${exactly(grad)} \u00d7 ${exactly(local)}`,
        nodes: [scene.nodes[edge.source].id, scene.nodes[edge.target].id],
        from: flows[index],
      },
    );
  }
  yield labels;
}

/** What stands in the way in a scene, found once for all pictures of the same places. */
const knownObstacles = new WeakMap<Scene["edges"], Obstacles>();

function obstaclesOf(scene: Scene): Obstacles {
  const known = knownObstacles.get(scene.edges) ?? new Obstacles(scene, RING);
  knownObstacles.set(scene.edges, known);
  return known.bare();
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

/** Which of the labels are to be seen at the cursor. */
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

/** The gradients to be seen at a cursor; the places of those that may be seen are found once per scene and run. */
export class GradientLayer {
  private readonly told = new Remembered();
  private placed: Iterator<GradientLabel[]> = [].values();
  private parts = 0;
  private labels: GradientLabel[] = [];

  constructor(private readonly measure: Measure) {}

  at(scene: Scene, marks: Marks): GradientLabel[] {
    const { progress, held } = marks;
    if (this.told.isNew(scene, progress?.recording ?? held)) {
      this.parts = 0;
      this.labels = progress ? [] : heldLabels(scene, held, this.measure);
      if (progress) this.placed = gradientsPlaced(scene, progress.recording, this.measure);
    }
    if (!progress) return this.labels;
    for (const wanted = partsSeen(scene, progress, marks); this.parts < wanted; this.parts++)
      this.labels = this.labels.concat(this.placed.next().value ?? []);
    return visibleGradients(this.labels, scene, progress, marks);
  }
}

/** How many parts of the gradients may be seen at the cursor. */
function partsSeen(scene: Scene, progress: Progress, { derivatives, selected }: Marks): number {
  if (derivatives || selected !== null || !isOver(progress)) return 3;
  return hasFew(scene) ? 2 : 1;
}

function hasFew({ edges }: Scene): boolean {
  return edges.length <= FEW_EDGES;
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
