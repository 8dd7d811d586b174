import { heightsOf } from "../../colours/bars";
import type { RankStrip } from "../../paint/marks";
import { normOf } from "../../scene/parameters";
import { overRanks } from "../../scene/rank_strip";
import type { Scene, SceneNode } from "../../scene/scene";
import type { Recording } from "../../steps/recording";
import { counted, normText } from "../../text/number";
import type { GraphModel, NodeRanksModel, RanksModel } from "../../wire";

/** The most ranks to name as outliers. */
const MOST_NAMED = 4;

/** The gradients of each drawn node on every rank, by the node's index; null without ranks. */
export function rankStrips(
  graph: GraphModel,
  scene: Scene,
  recording: Recording | null,
  shown: number | null,
): ReadonlyMap<number, RankStrip> | null {
  const { ranks } = graph;
  if (!ranks) return null;
  const over = overRanks(graph);
  const strips = new Map<number, RankStrip>();
  for (const node of scene.nodes) {
    if (!node.shape.ranks) continue;
    const ids = membersWith(node, over);
    const found = ids.flatMap((id) => over.get(id) ?? []);
    const from = Math.max(0, ...ids.map((id) => recording?.ready[id] ?? 0));
    strips.set(node.index, { ...stripOf(found, ranks, shown, node.group !== undefined), from });
  }
  return strips;
}

/** The nodes that a strip describes: the parameters of a closed box, else the node. */
function membersWith({ id, group }: SceneNode, over: ReadonlyMap<number, NodeRanksModel>) {
  return (group ? group.leaves : [id]).filter((one) => over.has(one));
}

/** Combine the bars of several nodes as one vector. A bar for several ranks gives bounds. */
function stripOf(
  nodes: readonly NodeRanksModel[],
  { first, last }: RanksModel,
  shown: number | null,
  isBox: boolean,
): Omit<RankStrip, "from"> {
  const norm = (of: (node: NodeRanksModel) => NodeRanksModel["most"], bar: number) => {
    const known = nodes.map((node) => normOf(of(node)[bar])).filter((one) => !Number.isNaN(one));
    return known.length === 0 ? Number.NaN : Math.hypot(...known);
  };
  const most = first.map((_, bar) => norm((node) => node.most, bar));
  const least = first.map((_, bar) => norm((node) => node.least ?? node.most, bar));
  const { isLog, shareOf } = heightsOf([...most, ...least].filter((one) => !Number.isNaN(one)));
  const height = (one: number) => (Number.isNaN(one) ? null : shareOf(one));
  const some = (bar: number, of: (node: NodeRanksModel) => readonly number[]) =>
    nodes.some((node) => of(node).includes(bar));
  const bars = first.map((from, bar) => ({
    least: height(least[bar]),
    most: height(most[bar]),
    isNotFinite: some(bar, (node) => node.not_finite),
    isWithout: some(bar, (node) => node.without),
    isOdd: some(bar, (node) => node.odd),
    isShown: shown !== null && from <= shown && shown <= last[bar],
  }));
  const named = (is: (bar: (typeof bars)[number]) => boolean) => {
    const found = first.flatMap((from, bar) =>
      is(bars[bar]) ? [from === last[bar] ? `${from}` : `${from}–${last[bar]}`] : [],
    );
    const rest = found.length - MOST_NAMED;
    const more = rest > 0 ? ` and ${rest} more` : "";
    const one = found.length === 1 && !found[0].includes("–");
    return found.length === 0
      ? null
      : `${one ? "rank" : "ranks"} ${found.slice(0, MOST_NAMED).join(", ")}${more}`;
  };
  const finite = [...most, ...least].filter((one) => Number.isFinite(one));
  const [low, high] = [Math.min(...finite), Math.max(...finite)].map((one) => normText(one));
  const range = finite.length === 0 ? "none" : low === high ? low : `${low} to ${high}`;
  const whose = isBox
    ? `gradient norm of its ${counted(nodes.length, "parameter")}`
    : "gradient norm";
  const parts: [string, string | null][] = [
    ["NaN or Inf on", named(({ isNotFinite }) => isNotFinite)],
    ["none on", named(({ isWithout }) => isWithout)],
    ["not as most:", named(({ isOdd }) => isOdd)],
  ];
  return {
    bars,
    words: [
      `${whose} over the ranks ${range} (height: ${isLog ? "logarithmic" : "linear"})`,
      ...parts.flatMap(([text, which]) => (which === null ? [] : [`${text} ${which}`])),
    ].join(", "),
  };
}
