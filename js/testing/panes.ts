import { localChannel } from "../channel";
import { NO_MODULES, PLAIN_NODE } from "../demo/build_graph";
import type {
  CompareTraits,
  EdgeModel,
  GraphModel,
  NodeModel,
  PaneModel,
  PassModel,
} from "../wire";

/** A graph in few words: "name kind op" per node, and "source target argument" per edge. */
export function graphOf(nodes: readonly string[], edges: readonly string[]): GraphModel {
  return {
    static: false,
    modules: NO_MODULES,
    checkpoints: [],
    derivatives: [],
    ranks: null,
    plan: null,
    nodes: nodes.map((text, id): NodeModel => {
      const [name, kind, op] = text.split(" ");
      return {
        ...PLAIN_NODE,
        id,
        kind: kind as NodeModel["kind"],
        op: op ?? "AccumulateGrad",
        label: name === "-" ? (op ?? "") : name,
        name: name === "-" ? null : name,
        shape: [1],
      };
    }),
    edges: edges.map((text): EdgeModel => {
      const [source, target, argument, kind = "gradient"] = text.split(" ");
      return {
        source: Number(source),
        target: Number(target),
        argument: argument === "-" ? null : argument,
        arg_nr: argument === "other" ? 1 : 0,
        output_nr: 0,
        via: null,
        kind: kind as EdgeModel["kind"],
      };
    }),
    roots: [{ node: 0, output_nr: 0, name: "h" }],
  };
}

/** w * x + b three times: as it is, with x cloned, and with a constant in the place of x. */
export const PANES: PaneModel[] = [
  {
    label: "x",
    graph: graphOf(
      ["- op AddBackward0", "- op MulBackward0", "b leaf", "w leaf", "x leaf"],
      ["0 1 self", "0 2 other", "1 3 self", "1 4 other"],
    ),
  },
  {
    label: "<b>clone</b>",
    graph: graphOf(
      [
        "- op AddBackward0",
        "- op MulBackward0",
        "b leaf",
        "w leaf",
        "- op CloneBackward0",
        "x leaf",
      ],
      ["0 1 self", "0 2 other", "1 3 self", "1 4 other", "4 5 self"],
    ),
  },
  {
    label: "frozen",
    graph: graphOf(
      ["- op AddBackward0", "- op MulBackward0", "b leaf", "w leaf", "xf constant constant"],
      ["0 1 self", "0 2 other", "1 3 self", "1 4 other constant"],
    ),
  },
];

export const MEMBERS: (number | null)[][] = [
  [0, 0, 0],
  [1, 1, 1],
  [2, 2, 2],
  [3, 3, 3],
  [4, 5, null],
  [null, 4, null],
  [null, null, 4],
];

/** A pass that ran all of the graph in this order, or none. */
export function passOf(graph: GraphModel, order: readonly number[] | null): PassModel {
  const ran = order ?? [];
  return {
    state: {
      runs: order === null ? 0 : 1,
      reached: [...ran],
      flowed: [],
      freed: [],
      held: [],
      note: order === null ? "Nothing yet." : `Reached ${ran.length} nodes.`,
    },
    steps: ran.map((node, i) => ({
      step: i + 1,
      node,
      op: graph.nodes[node].op,
      name: graph.nodes[node].name,
      accumulated: graph.nodes[node].kind === "leaf" ? `${graph.nodes[node].name}.grad` : null,
      ready: i === 0 ? 0 : i,
    })),
    run:
      order === null
        ? null
        : {
            run: 1,
            ended: "done",
            seeds: [],
            edges: [],
            values: [],
            norms: [],
            arrived: [],
            grads: [],
            marks: [],
          },
    transport: { owned: order !== null, note: null, blocked: null },
  };
}

/** The traits of the three graphs above, as Python sends them. */
export function compareTraits(change: Partial<CompareTraits> = {}): CompareTraits {
  return {
    panes: PANES,
    members: MEMBERS,
    selected: null,
    details: [null, null, null],
    passes: PANES.map(({ graph }) => passOf(graph, null)),
    _steps: [],
    cursor: 0,
    table: {
      rows: [
        {
          name: "<i>x</i>",
          cells: [
            { node: 4, requires_grad: true, is_leaf: true, before: null, now: few([4]) },
            { node: 4, requires_grad: true, is_leaf: true, before: null, now: few([4]) },
            { node: null, requires_grad: null, is_leaf: null, before: null, now: null },
          ],
        },
        {
          name: "w",
          cells: [few([1]), few([2]), few(null)].map((now) => ({
            node: 3,
            requires_grad: true,
            is_leaf: true,
            before: null,
            now,
          })),
        },
      ],
      total: 2,
    },
    compiled: [],
    errors: null,
    direction: "down",
    constants: true,
    _fault: null,
    ...change,
  };
}

function few(values: number[] | null) {
  return { values, norm: 2.5 };
}

export const localComparison = (change: Partial<CompareTraits> = {}) =>
  localChannel<CompareTraits>(compareTraits(change));
