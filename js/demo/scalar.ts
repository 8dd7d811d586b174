import type { GraphModel } from "../wire";

/** The derivative along one edge of a graph of scalars. */
export interface Local {
  code: string;
  numbers: string;
  value: number;
}

/** A graph of scalars with exact numbers. */
export interface Scalars {
  /** Each node's forward value. */
  value: Float64Array;
  /** The derivative along each edge. */
  local: Local[];
}

/** The numbers of a graph; null unless it has only scalars and simple operations. */
export function scalarsOf({ nodes, edges }: GraphModel): Scalars | null {
  const value = new Float64Array(nodes.length);
  const inputs = nodes.map(() => new Map<string, number>());
  for (const { source, target, argument } of edges) inputs[source].set(argument ?? "", target);
  let leaves = 0;
  const operand = (id: number, name: string) => {
    const target = inputs[id].get(name);
    return target === undefined ? (CONSTANTS[`${nodes[id].op} ${name}`] ?? 1) : value[target];
  };
  for (const { id, kind, op, shape } of [...nodes].reverse()) {
    if (shape?.some((size) => size !== 1) ?? true) return null;
    const [a, b] = [operand(id, "self"), operand(id, "other")];
    if (kind === "leaf") {
      value[id] = 3 - leaves;
      leaves += 1;
    } else if (op === "AddBackward0") value[id] = a + b;
    else if (op === "SubBackward0") value[id] = a - b;
    else if (op === "MulBackward0") value[id] = a * b;
    else if (op === "PowBackward0") value[id] = a ** 2;
    else return null;
  }
  const local = edges.map(({ source, argument }): Local => {
    const [a, b] = [operand(source, "self"), operand(source, "other")];
    const one = (code: string, numbers: string, value: number) => ({ code, numbers, value });
    switch (nodes[source].op) {
      case "MulBackward0":
        return argument === "self" ? one("grad * other", `${b}`, b) : one("grad * self", `${a}`, a);
      case "PowBackward0":
        return one("grad * 2 * self", `2 * ${a}`, 2 * a);
      case "SubBackward0":
        return argument === "other" ? one("-grad", "-1", -1) : one("grad", "1", 1);
      default:
        return one("grad", "1", 1);
    }
  });
  return { value, local };
}

/** The demo programs' constants, where the graph has no node. */
const CONSTANTS: Record<string, number> = { "MulBackward0 self": 2, "MulBackward0 other": 3 };
