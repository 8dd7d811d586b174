import { scalarsOf } from "../demo/scalar";
import type {
  GraphModel,
  GrownModel,
  JsonNumber,
  MarkModel,
  RunModel,
  StepModel,
  Values,
} from "../wire";

export const SITUATIONS = ["fine", "stops", "nan", "view only", "blocked"] as const;
export type Situation = (typeof SITUATIONS)[number];

/** A backward pass as Python records it: in a possible order of the engine, with exact numbers if all is scalar. */
export function fakeRun(
  graph: GraphModel,
  situation: Situation,
): { steps: StepModel[]; run: RunModel } {
  const order = engineOrder(graph);
  const last = situation === "stops" ? Math.max(1, Math.floor(order.length * 0.6)) : order.length;
  const ran = order.slice(0, last);
  const at = new Map(ran.map((id, i) => [id, i + 1]));
  const badFrom =
    situation === "nan" ? order.find((id, i) => i >= order.length / 3 && isOp(graph, id)) : null;
  const arriving: (number[] | null)[] = graph.nodes.map(() => null);
  const local = scalarsOf(graph)?.local ?? null;
  const carried = new Map<number, { values: Values | null; norm: JsonNumber }>();
  const ready = new Int32Array(graph.nodes.length);
  const bad = new Set<number>();
  const outEdges = grouped(graph);
  for (const { node, output_nr } of graph.roots) if (output_nr === 0) arriving[node] = [1];
  for (const id of ran) {
    for (const edge of outEdges[id]) {
      const { target } = graph.edges[edge];
      ready[target] = Math.max(ready[target], at.get(id) ?? 0);
      if (id === badFrom || bad.has(id)) bad.add(target);
      const exact = local === null ? null : (arriving[id]?.[0] ?? 0) * local[edge].value;
      carried.set(edge, gradient(graph, target, edge, exact, bad.has(target)));
      if (exact !== null) arriving[target] = [(arriving[target]?.[0] ?? 0) + exact];
    }
  }
  const steps = ran.map((id, i): StepModel => {
    const node = graph.nodes[id];
    return {
      step: i + 1,
      node: id,
      op: node.op,
      name: node.name,
      accumulated: node.kind === "leaf" ? `${node.label}.grad` : null,
      ready: ready[id],
    };
  });
  const grads = ran
    .filter((id) => !isOp(graph, id))
    .map(
      (id): GrownModel => ({
        node: id,
        before: null,
        changed: false,
        now: null,
        ...gradient(graph, id, 3 * id, local && (arriving[id]?.[0] ?? null), bad.has(id)),
      }),
    );
  const marks: MarkModel[] = [];
  if (badFrom !== null && badFrom !== undefined) {
    marks.push({
      node: badFrom,
      kind: "nan",
      note: `NaN is born here: nothing that flowed into ${graph.nodes[badFrom].op} had one, and what it passes on as the gradient of ${graph.edges[outEdges[badFrom][0]]?.argument ?? "its input"} has.`,
    });
  }
  if (situation === "stops") {
    marks.push({
      node: order[last] ?? order[last - 1],
      kind: "error",
      note: `Backward stopped in ${graph.nodes[order[last] ?? 0].op}. RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation. Every .grad is as it was before.`,
    });
  }
  return {
    steps,
    run: {
      run: 1,
      ended: situation === "stops" ? "stopped" : "done",
      seeds: graph.roots.map(({ node, output_nr }) => ({ node, output_nr, values: 1, norm: 1 })),
      edges: [...carried.keys()],
      values: Array.from(carried.values(), (one) => one.values),
      norms: Array.from(carried.values(), (one) => one.norm),
      arrived: [],
      grads,
      marks,
    },
  };
}

function gradient(
  graph: GraphModel,
  id: number,
  seed: number,
  exact: number | null,
  bad: boolean,
): { values: Values | null; norm: JsonNumber } {
  const shape = graph.nodes[id].shape ?? [];
  const numel = shape.reduce((product, size) => product * size, 1);
  const noise = (i: number) => Math.round(Math.sin(seed * 7.3 + i * 2.1) * 400) / 100;
  const first = bad ? "nan" : (exact ?? noise(0));
  if (numel > 4) return { values: null, norm: bad ? "nan" : Math.abs(noise(1)) / (1 + id / 9) };
  if (numel === 0) return { values: [], norm: 0 };
  let next = 0;
  const fill = (dim: number): Values =>
    dim === shape.length
      ? next++ === 0
        ? first
        : noise(next)
      : Array.from({ length: shape[dim] }, () => fill(dim + 1));
  return { values: fill(0), norm: typeof first === "string" ? first : Math.abs(first) };
}

/** A possible order of the engine: leaves as soon as they are ready, else the nodes nearest to the output. */
function engineOrder(graph: GraphModel): number[] {
  const outEdges = grouped(graph);
  const missing = new Int32Array(graph.nodes.length);
  for (const edge of graph.edges) missing[edge.target] += 1;
  const depth = new Int32Array(graph.nodes.length);
  const waiting = graph.nodes.map((node) => node.id).filter((id) => missing[id] === 0);
  const order: number[] = [];
  const rank = (id: number) => (isOp(graph, id) ? depth[id] + 1 : 0);
  while (waiting.length > 0) {
    let best = 0;
    for (let i = 1; i < waiting.length; i++) if (rank(waiting[i]) <= rank(waiting[best])) best = i;
    const [id] = waiting.splice(best, 1);
    order.push(id);
    for (const edge of outEdges[id]) {
      const { target } = graph.edges[edge];
      depth[target] = Math.max(depth[target], depth[id] + 1);
      missing[target] -= 1;
      if (missing[target] === 0) waiting.push(target);
    }
  }
  return order;
}

function grouped({ nodes, edges }: GraphModel): number[][] {
  const out: number[][] = nodes.map(() => []);
  edges.forEach((edge, i) => {
    out[edge.source].push(i);
  });
  return out;
}

function isOp({ nodes }: GraphModel, id: number): boolean {
  return nodes[id].kind === "op";
}
