import { listsBy, perObject } from "../maps";
import { MOST_CARDS } from "../scene/card";
import type { Plan } from "../scene/plan";
import type { GraphModel } from "../wire";
import type { withoutDocked } from "./dock";

/** Per node of a graph, its number in a walk from the outputs along one operand after the other. */
const walkNumbers = perObject(({ nodes, edges, roots }: GraphModel): Int32Array => {
  const number = new Int32Array(nodes.length).fill(nodes.length);
  const operands = listsBy([...edges.keys()], (e) => edges[e].source);
  const next = roots.map(({ node }) => node).reverse();
  let count = 0;
  for (let v = next.pop(); v !== undefined; v = next.pop()) {
    if (number[v] < nodes.length) continue;
    number[v] = count++;
    for (const e of [...(operands.get(v) ?? [])].reverse()) next.push(edges[e].target);
  }
  return number;
});

/**
 * Sort the nodes and edges of a small graph with modules depth-first: the operands of a module's calls then have the
 * order of the users of the calls, whether the module is open or closed.
 */
export function inWalkOrder(
  stay: ReturnType<typeof withoutDocked>,
  graph: GraphModel,
  { nodes, edges, frames }: Plan,
): ReturnType<typeof withoutDocked> {
  const hasModules = frames.length > 0 || nodes.some(({ group }) => group !== null);
  if (!hasModules || graph.nodes.length > MOST_CARDS) return stay;
  const number = walkNumbers(graph);
  const first = nodes.map(({ id, group }) =>
    (group?.members ?? [id]).reduce((least, v) => Math.min(least, number[v]), number.length),
  );
  const start = (e: number) => number[graph.edges[edges[e].edges[0]].source];
  const kept = [...stay.kept].sort((a, b) => first[a] - first[b]);
  const at = new Int32Array(nodes.length).fill(-1);
  kept.forEach((v, i) => {
    at[v] = i;
  });
  return { kept, at, lines: [...stay.lines].sort((a, b) => start(a) - start(b)) };
}
