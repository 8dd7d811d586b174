import type { GraphModel } from "../wire";
import { isBody } from "./module_class";
import type { Plan } from "./plan";
import { isWork } from "./shown_graph";

/** Remove the frames around single operations, which become plain nodes named after their modules. */
export function boardPlan(graph: GraphModel, plan: Plan): Plan {
  const { nodes, frames } = plan;
  if (nodes.some(({ group }) => group)) return plan;
  const operations = new Int32Array(frames.length);
  for (const { id, frame } of nodes) {
    if (!isWork(graph.nodes[id])) continue;
    for (let f = frame; f >= 0; f = frames[f].parent) operations[f]++;
  }
  const kept = frames.flatMap((_, f) => (operations[f] > 1 || isBody(frames[f].path) ? [f] : []));
  if (kept.length === frames.length) return plan;
  const at = new Map(kept.map((f, i) => [f, i]));
  /** The innermost outer frame that stays, and the outermost inner one that does not. */
  const around = (frame: number) => {
    let dropped = -1;
    let f = frame;
    for (; f >= 0 && !at.has(f); f = frames[f].parent) dropped = f;
    return { frame: at.get(f) ?? -1, dropped };
  };
  return {
    ...plan,
    frames: kept.map((f) => ({ ...frames[f], parent: at.get(frames[f].parent) ?? -1 })),
    nodes: nodes.map((node) => {
      const { frame, dropped } = around(node.frame);
      const isOne = dropped >= 0 && isWork(graph.nodes[node.id]);
      return { ...node, frame, ...(isOne && { module: frames[dropped].path }) };
    }),
  };
}
