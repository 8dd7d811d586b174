import type { Dtypes } from "../colours/dtypes";
import type { FindingModel, GraphModel, MemoryModel, RunModel } from "../wire";

/** What Python would say of the memory that a graph holds: four bytes a number, for what its operations save. */
export function fakeMemory(graph: GraphModel): MemoryModel {
  const nodes: number[] = [];
  const bytes: number[] = [];
  const byModule = new Map<string, number>();
  for (const { id, op, shape, namespace } of graph.nodes) {
    if (/^(Accumulate|View|UnsafeView|T|Transpose|Expand|Clone|Add|Sum|Mean)/.test(op)) continue;
    const size = 4 * (shape ?? []).reduce((product, one) => product * one, 1);
    nodes.push(id);
    bytes.push(size);
    byModule.set(namespace ?? "", (byModule.get(namespace ?? "") ?? 0) + size);
  }
  return {
    nodes,
    bytes,
    namespaces: [...byModule.keys()],
    namespace_bytes: [...byModule.values()],
    total: bytes.reduce((sum, size) => sum + size, 0),
    unknown: 0,
  };
}

/** Norms in double precision, all else in single. */
export function fakeDtypes(graph: GraphModel): Dtypes {
  return {
    names: ["float32", "float64"],
    nodes: graph.nodes.map(({ op }) => (/Norm|Softmax/.test(op) ? 1 : 0)),
  };
}

/** A few findings that are true of the demo's runs, or could be. */
export function fakeFindings(graph: GraphModel, run: RunModel | null): FindingModel[] {
  const findings: FindingModel[] = (run?.marks ?? []).map((mark) => ({
    kind: mark.kind === "nan" ? "nan" : "no backward",
    severity: "error",
    nodes: [mark.node],
    message: mark.note,
    numbers: [],
  }));
  const memory = fakeMemory(graph);
  const order = memory.nodes.map((_, i) => i).sort((a, b) => memory.bytes[b] - memory.bytes[a]);
  const largest = order.slice(0, 5).map((i) => memory.nodes[i]);
  findings.push({
    kind: "memory",
    severity: "info",
    nodes: largest,
    message: `The graph holds ${memory.total} bytes for backward; these ${largest.length} operations hold the most of it.`,
    numbers: [{ name: "bytes", value: memory.total }],
  });
  return findings;
}
