import type { EdgeModel, GraphModel, ModulesModel, NodeModel } from "../wire";

export const NO_MODULES: ModulesModel = { namespaces: [], classes: [], names: [] };

/** A node's default fields. A new field gets its default here. */
export const PLAIN_NODE: Omit<NodeModel, "id" | "kind" | "op" | "label"> = {
  name: null,
  shape: [],
  no_grad_inputs: [],
  namespace: null,
  value: null,
  changed: false,
  sign: null,
  said_by: null,
  inferred: false,
  checkpoint: null,
  inside: null,
  recomputed: false,
  in_backward: false,
};

/** An operand: an earlier node, or a constant without gradient. */
export type Operand = number | null;

/** Build a graph in the program's order, as the wire model. */
export class Builder {
  private readonly made: Omit<NodeModel, "id">[] = [];
  private readonly inputs: {
    target: number;
    argument: string;
    argNr: number;
    outputNr: number;
  }[][] = [];

  /** The module of the next nodes, "encoder/layers/0"; null when modules are not watched. */
  namespace: string | null = null;

  leaf(name: string | null, shape: number[]): number {
    this.inputs.push([]);
    return (
      this.made.push({
        ...PLAIN_NODE,
        kind: "leaf",
        op: "AccumulateGrad",
        label: name ?? "leaf",
        name,
        shape,
      }) - 1
    );
  }

  op(
    op: string,
    shape: number[] | null,
    operands: Record<string, Operand>,
    name: string | null = null,
  ): number {
    const entries = Object.entries(operands);
    this.inputs.push(
      entries.flatMap(([argument, target], argNr) =>
        target === null ? [] : [{ target, argument, argNr, outputNr: 0 }],
      ),
    );
    const noGrad = entries.flatMap(([argument, target], arg_nr) =>
      target === null ? [{ arg_nr, argument }] : [],
    );
    return (
      this.made.push({
        ...PLAIN_NODE,
        kind: "op",
        op,
        label: name ?? op,
        name,
        shape,
        no_grad_inputs: noGrad,
        namespace: this.namespace,
      }) - 1
    );
  }

  /** The graph of some outputs, numbered breadth-first from them. */
  graph(...roots: [node: number, name: string | null][]): GraphModel {
    const ids = new Map<number, number>();
    const queue: number[] = [];
    const visit = (node: number) => {
      if (ids.has(node)) return;
      ids.set(node, queue.length);
      queue.push(node);
    };
    for (const [node] of roots) visit(node);
    const edges: EdgeModel[] = [];
    for (let i = 0; i < queue.length; i++) {
      for (const { target, argument, argNr, outputNr } of this.inputs[queue[i]]) {
        visit(target);
        edges.push({
          source: i,
          target: ids.get(target) ?? 0,
          argument,
          arg_nr: argNr,
          output_nr: outputNr,
          via: null,
          kind: "gradient",
        });
      }
    }
    return {
      static: false,
      modules: NO_MODULES,
      nodes: queue.map((node, id) => ({ id, ...this.made[node] })),
      edges,
      roots: roots.map(([node, name]) => ({ node: ids.get(node) ?? 0, output_nr: 0, name })),
      checkpoints: [],
      derivatives: [],
      ranks: null,
      plan: null,
    };
  }
}
