import type { Measure } from "../text/measure";
import { shortCount } from "../text/number";
import { formatShape } from "../text/shorten";
import type { GraphModel } from "../wire";
import { AGAIN, againWords } from "./checkpoints";
import type { Text } from "./node_shape";
import { parametersIn, sizeOf } from "./parameters";
import type { Plan } from "./plan";
import { onlyIn } from "./rank_strip";

/** An open group's facts besides its name. */
interface Facts {
  /** Its output, if that is one tensor. */
  shape: readonly number[] | null;
  /** Its parameters' number of elements. */
  numbers: number;
  /** Whether it runs forward again in backward. */
  again: string | null;
  /** Its ranks, unless all have it. */
  only: string | null;
}

/** Per open group of a plan, its facts. Linear in the nodes in boxes, and in edges times their depth. */
export function factsOf(graph: GraphModel, plan: Plan): Facts[] {
  const { nodes, edges, frames, nodeOf } = plan;
  const placeOf = (id: number) => nodeOf?.[id] ?? id;
  const numbers = frames.map(({ counted }) => counted);
  const given = frames.map(() => new Set<number>());
  const isParameter = parametersIn(graph);
  for (const { id, group, frame } of nodes) {
    if (frame < 0) continue;
    for (const member of group?.members ?? [id])
      if (isParameter(member)) numbers[frame] += sizeOf(graph.nodes[member].shape);
  }
  for (let f = frames.length - 1; f >= 0; f--)
    if (frames[f].parent >= 0) numbers[frames[f].parent] += numbers[f];

  /** A tensor is made in `frame` and used in `taker`, -1 for outside. */
  const give = (made: number, frame: number, taker: number) => {
    const around = new Set<number>();
    for (let f = taker; f >= 0; f = frames[f].parent) around.add(f);
    for (let f = frame; f >= 0 && !around.has(f); f = frames[f].parent) given[f].add(made);
  };
  for (const { source, target, edges: parts } of edges) {
    const [to, from] = [nodes[target].frame, nodes[source].frame];
    if (to < 0 || to === from) continue;
    for (const e of parts) {
      const { target: made, output_nr, kind } = graph.edges[e];
      if (kind !== "gradient" || graph.nodes[made].kind !== "op") continue;
      // Nodes folded into the line change the tensor.
      if (placeOf(made) === target) give(output_nr === 0 ? made : -1 - made, to, from);
    }
  }
  for (const { node } of graph.roots) {
    if (placeOf(node) >= 0) give(node, nodes[placeOf(node)].frame, -1);
  }
  const only = onlyIn(graph, plan);
  return frames.map((_, f) => {
    const [made] = given[f];
    const isOne = given[f].size === 1 && made >= 0;
    return {
      shape: isOne ? graph.nodes[made].shape : null,
      // A weight that another module shares is drawn outside.
      numbers: Math.max(numbers[f], frames[f].used),
      again: againWords(graph, frames[f].path),
      only: only[f],
    };
  });
}

/** The largest scale of a title beside its facts. */
const GROWN = 1.8;
const GAP = 12;
/** From the facts to the border, and from its top to their baseline, px. */
const RIGHT = 10;
const BASELINE = 17.5;

/** The facts that fit at the right of a title. */
export function fittedFacts(
  { shape, numbers, again, only }: Facts,
  title: number,
  width: number,
  measure: Measure,
): Text[] {
  const count = numbers > 0 ? [`${shortCount(numbers)} params`] : [];
  const first = [only, again].filter((words) => words !== null);
  const all = shape ? [...first, formatShape(shape), ...count] : [...first, ...count];
  const room = width - GROWN * title - GAP;
  const fitting = [
    all,
    [...first, ...count],
    first.length > 0 ? first : count,
    first.map((words) => (words === again ? AGAIN : words)),
  ]
    .map((facts) => facts.join(" · "))
    .find((text) => text !== "" && measure(text, "cell") <= room);
  if (fitting === undefined) return [];
  return [{ text: fitting, style: "cell", x: width - RIGHT, y: BASELINE, anchor: "end" }];
}
