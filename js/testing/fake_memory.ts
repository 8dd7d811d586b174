import type { GraphModel, MemoryModel } from "../wire";

/** The memory that a graph holds: four bytes a number, for its operations' saved tensors. */
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
