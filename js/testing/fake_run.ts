import type {
  GraphModel,
  GrownModel,
  JsonNumber,
  MarkModel,
  RunModel,
  StepModel,
  Values,
} from "../wire";

export const SITUATIONS = ["fine", "stops", "nan"] as const;
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
  const local = localsOf(graph);
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
      const exact = local === null ? null : (arriving[id]?.[0] ?? 0) * local[edge];
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

/** The derivative along each edge of a graph of scalars; null for other graphs. */
function localsOf({ nodes, edges }: GraphModel): number[] | null {
  const value = new Float64Array(nodes.length);
  const inputs = nodes.map(() => new Map<string, number>());
  for (const { source, target, argument } of edges) inputs[source].set(argument ?? "", target);
  let next = 3;
  const operand = (id: number, name: "self" | "other") => {
    const target = inputs[id].get(name);
    return target === undefined ? (CONSTANTS[`${nodes[id].op} ${name}`] ?? 1) : value[target];
  };
  for (const { id, kind, op, shape } of [...nodes].reverse()) {
    const result = RESULTS[op]?.(operand(id, "self"), operand(id, "other"));
    if ((shape?.some((size) => size !== 1) ?? true) || (kind !== "leaf" && result === undefined))
      return null;
    value[id] = result ?? next--;
  }
  return edges.map(({ source, argument }) => {
    const { op } = nodes[source];
    if (op === "MulBackward0") return operand(source, argument === "self" ? "other" : "self");
    if (op === "PowBackward0") return 2 * operand(source, "self");
    return op === "SubBackward0" && argument === "other" ? -1 : 1;
  });
}

const RESULTS: Record<string, (self: number, other: number) => number> = {
  AddBackward0: (a, b) => a + b,
  SubBackward0: (a, b) => a - b,
  MulBackward0: (a, b) => a * b,
  PowBackward0: (a) => a ** 2,
};

/** The programs' constants, where the graph has no node. */
const CONSTANTS: Record<string, number> = { "MulBackward0 self": 2, "MulBackward0 other": 3 };
