import { perObject } from "../maps";
import type { GraphModel, NodeRanksModel, RanksModel } from "../wire";
import type { Place } from "./grid";
import type { NodeShape } from "./node_shape";
import type { Plan, PlanNode } from "./plan";

/** Height of a node's strip over ranks, px, and its distance from the node's sides. */
const ROOM = 30;
const PAD = { card: 7, box: 5, pill: 16 };
/** The least width of its bars, px. */
const LEAST_BAR = 4;
/** The size of a sign with words: px per character, px for both ends, and its height. */
const TAG = { character: 5.4, ends: 10, height: 14 };

type Box = Pick<NodeShape, "width" | "height" | "flagHeight" | "texts" | "card" | "tile">;

const TAG_OUT = 12;

const byNode = perObject(
  ({ nodes }: RanksModel) => new Map(nodes.map((node) => [node.node, node])),
);
const NONE: ReadonlyMap<number, NodeRanksModel> = new Map();

/** The data over ranks, by node. */
export function overRanks({ ranks }: Pick<GraphModel, "ranks">) {
  return ranks ? byNode(ranks) : NONE;
}

/** The least width of a node for its strip and its sign with ranks. */
export function roomForRanks(
  { ranks }: Pick<GraphModel, "ranks">,
  hasStrip: boolean,
  only: string | null,
): number {
  const bars = hasStrip ? LEAST_BAR * (ranks?.first.length ?? 0) + 2 * PAD.pill : 0;
  return Math.max(bars, only === null ? 0 : tagSize(only).width - TAG_OUT);
}

/** Add a strip to a node at its foot, above a box' followers. */
export function withStrip<B extends Box>(box: B, isPill: boolean): B & { ranks: Place } {
  const { card, tile } = box;
  const half = ROOM / 2;
  const foot = tile?.under ?? 0;
  const move = (y: number) => (y > box.height / 2 ? y + half : y - half);
  const up = <C extends { y: number }>(cell: C): C => ({ ...cell, y: move(cell.y) });
  const pad = card ? PAD.card : isPill ? PAD.pill : PAD.box;
  const height = box.height + ROOM;
  return {
    ...box,
    height,
    texts: box.texts.map((text) => ({ ...text, y: text.foot ? text.y + half : move(text.y) })),
    ...(tile && { tile: { ...tile, number: tile.number === null ? null : tile.number - half } }),
    ...(card && {
      card: {
        ...card,
        rules: [
          ...card.rules.map(([x0, y0, x1, y1]): [number, number, number, number] => [
            ...([x0, y0 - half, x1, y1 - half] as const),
          ]),
          [-box.width / 2, height / 2 - ROOM, box.width / 2, height / 2 - ROOM],
        ],
        sign: card.sign && up(card.sign),
        value: up(card.value),
        grad: card.grad && up(card.grad),
        sum: card.sum && up(card.sum),
        rows: card.rows.map(up),
        ...(card.numberInputs && { numberInputs: up(card.numberInputs) }),
      },
    }),
    ranks: {
      ...{ x: 0, y: height / 2 - foot - half - (isPill ? 2 : 0) },
      ...{ width: box.width - 2 * pad, height: ROOM },
    },
  };
}

/** The ranks of a drawn node, unless all have all of it. */
export function onlyOn(graph: Pick<GraphModel, "ranks">, node: PlanNode): string | null {
  if (!graph.ranks) return null;
  const over = overRanks(graph);
  const stated = new Set(membersOf(node).map((id) => over.get(id)?.only ?? null));
  const [first] = stated;
  return stated.size > 1 ? "not the same on all ranks" : (first ?? null);
}

/** Per open box of a plan, its ranks, if all of it is on the same ranks but not on all. */
export function onlyIn(
  graph: Pick<GraphModel, "ranks">,
  { nodes, frames }: Pick<Plan, "nodes" | "frames">,
): (string | null)[] {
  const stated = frames.map(() => new Set<string | null>());
  if (!graph.ranks) return stated.map(() => null);
  const over = overRanks(graph);
  for (const node of nodes) {
    // Nodes outside autograd have no ranks.
    if (node.frame >= 0 && membersOf(node).some((id) => over.has(id)))
      stated[node.frame].add(onlyOn(graph, node));
  }
  for (let f = frames.length - 1; f >= 0; f--)
    for (const words of stated[f]) stated[frames[f].parent]?.add(words);
  return stated.map((all) => (all.size === 1 ? [...all][0] : null));
}

/** The graph nodes of a plan's node. */
function membersOf({ id, group, also = [] }: PlanNode): readonly number[] {
  return group?.members ?? [id, ...also];
}

/** The place of this sign, at the lower left corner of a node, from its centre: badges are at the right. */
export function onlyTag({ width, height, outline }: NodeShape, words: string) {
  const size = tagSize(words);
  return { x: (size.width - width) / 2 - TAG_OUT, y: height / 2 + outline + 6, ...size };
}

/** The size of a small sign with words. */
export function tagSize(words: string) {
  return { width: TAG.character * words.length + TAG.ends, height: TAG.height };
}
