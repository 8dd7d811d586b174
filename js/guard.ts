import { type GraphModel, type NodeModel, WIRE_VERSION } from "./wire";

const KINDS: ReadonlySet<unknown> = new Set<NodeModel["kind"]>([
  "leaf",
  "op",
  "constant",
  "cut",
  "outside",
]);

/** Returns the value as a graph, or throws one whole sentence that says what is wrong with it. */
export function checkGraph(value: unknown): GraphModel {
  if (!isRecord(value) || Object.keys(value).length === 0) {
    throw new Error("Python sent no graph. Run the cell again to make a new widget.");
  }
  if (value.v !== WIRE_VERSION) {
    throw new Error(
      `This widget's front end reads wire version ${WIRE_VERSION}, but Python sent version ${String(value.v)}. ` +
        "Restart the kernel and reload the page, so that both come from the same gradwalk.",
    );
  }
  const { nodes, edges, roots } = value;
  if (!Array.isArray(nodes) || !Array.isArray(edges) || !Array.isArray(roots)) {
    throw new Error("The graph that Python sent lacks its list of nodes, edges or roots.");
  }
  const n = nodes.length;
  nodes.forEach(checkNode);
  edges.forEach((edge, i) => {
    if (!isRecord(edge) || !isId(edge.source, n) || !isId(edge.target, n)) {
      throw new Error(`Edge ${i} does not join two of the graph's ${n} nodes.`);
    }
  });
  roots.forEach((root, i) => {
    if (!isRecord(root) || !isId(root.node, n)) {
      throw new Error(`Output ${i} is not one of the graph's ${n} nodes.`);
    }
  });
  return value as unknown as GraphModel;
}

function checkNode(node: unknown, i: number): void {
  if (!isRecord(node) || node.id !== i) {
    throw new Error(`Node ${i} of the graph does not carry its position as its id.`);
  }
  if (!KINDS.has(node.kind)) {
    throw new Error(
      `Node ${i} is of the kind "${String(node.kind)}", which this front end cannot draw.`,
    );
  }
  if (typeof node.op !== "string" || typeof node.label !== "string") {
    throw new Error(`Node ${i} of the graph lacks its operation or its label.`);
  }
  if (!Array.isArray(node.no_grad_inputs) || !(node.shape === null || Array.isArray(node.shape))) {
    throw new Error(
      `Node ${i} of the graph lacks its shape or its list of inputs without gradient.`,
    );
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isId(value: unknown, n: number): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < n;
}
