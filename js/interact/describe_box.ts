import type { Marks } from "../paint/marks";
import { stripAt } from "../paint/rank_strips";
import { tileAt } from "../paint/tiles";
import { regionOf } from "../scene/checkpoints";
import { classOf, isModule } from "../scene/module_class";
import type { ClosedGroup } from "../scene/plan";
import type { SceneNode } from "../scene/scene";
import { isWork } from "../scene/shown_graph";
import { counted, normText } from "../text/number";
import { oneLine } from "../text/shorten";
import type { GraphModel } from "../wire";
import { type Description, describe } from "./describe";

/** The most operations that a box' description names. */
const MOST_NAMED = 4;

/** Added for a closed box that the reader can open. */
export const HOW_TO_OPEN = "closed: double-click or Enter opens it, a click or Space selects it";

/** A drawn node's words. */
export function describeDrawn(graph: GraphModel, node: SceneNode, marks: Marks): Description {
  if (node.gate) return describeGate(node, marks);
  const { title, lines } = node.group
    ? describeBox(graph, node.group, marks)
    : describe(graph, node.id, marks);
  const said = [
    node.only,
    tileAt(node, marks)?.words,
    marks.tint?.words(node),
    stripAt(node, marks)?.words,
  ].filter((words): words is string => typeof words === "string");
  return { title, lines: [...said, ...lines] };
}

/** The words of a lens' node for something outside. */
function describeGate({ gate, group }: SceneNode, { progress }: Marks): Description {
  const carries = gate?.carries ?? null;
  const { gradients, run } = progress?.recording ?? { gradients: null, run: null };
  const norm =
    carries === null
      ? null
      : "node" in carries
        ? gradients?.get(carries.node)?.norm
        : run?.norms[run.edges.indexOf(carries.edge)];
  const lines =
    norm === null || norm === undefined ? [] : [`norm of the gradient ${normText(Number(norm))}`];
  return {
    title: `gradient ${oneLine(gate?.title ?? "")}`,
    lines: [...lines, ...(group ? [HOW_TO_OPEN] : [])],
  };
}

/** A closed box' words. */
function describeBox(graph: GraphModel, group: ClosedGroup, marks: Marks): Description {
  const { paths, members } = group;
  const counts = new Map<string, number>();
  let leaves = 0;
  for (const id of members) {
    const { kind, op } = graph.nodes[id];
    if (isWork(graph.nodes[id])) counts.set(op, (counts.get(op) ?? 0) + 1);
    if (kind === "leaf") leaves++;
  }
  const kind = oneLine(classOf(graph, paths[0]) ?? "");
  const what = kind || (isModule(paths[0]) ? "module" : "no module, but a box");
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_NAMED);
  const lines = [
    `${what} of ${counted(members.length, "node")}, ${counted(leaves, "leaf", "leaves")}`,
    ...common.map(([op, count]) => `${count} × ${oneLine(op)}`),
  ];
  if (counts.size > MOST_NAMED) lines.push(`and ${counts.size - MOST_NAMED} other operations`);
  for (const id of members)
    for (const { note } of marks.progress?.recording.marks.get(id) ?? []) lines.push(oneLine(note));
  const region = regionOf(graph, paths[0]);
  if (region) lines.push(`runs forward again in backward${region.saves && `: ${region.saves}`}`);
  lines.push(HOW_TO_OPEN);
  return { title: oneLine(paths[0].replaceAll("/", ".")), lines };
}
