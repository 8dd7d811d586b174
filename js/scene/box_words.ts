import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel, NodeModel } from "../wire";
import { regionOf, regionWords } from "./checkpoints";
import { classOf, isModule } from "./module_class";
import type { NodeWords } from "./node_words";
import { sizeOf } from "./parameters";
import type { ClosedGroup } from "./plan";
import { isWork } from "./shown_graph";

const TITLE_ROOM = 150;
const UNDER_ROOM = 130;
const PLAIN_ROOM = 84;
/** Of what a layer took in, so much is named. */
const MOST_NAMED = 3;
/** Of more operations than this, one convolution among them says little. */
const MOST_OPERATIONS = 6;

/** The words on a closed box; of `graph`, `isParameter` says which nodes are parameters. */
export function boxWords(
  graph: GraphModel,
  group: ClosedGroup,
  isParameter: (id: number) => boolean,
  flags: readonly string[],
  measure: Measure,
): NodeWords {
  const { paths, members } = group;
  const { nodes } = graph;
  const room = (text: string, style: Parameters<Measure>[1], most = TITLE_ROOM) =>
    shortenMiddle(oneLine(text), most, (part) => measure(part, style));
  const kind = classOf(graph, paths[0]);
  const parameters = members.filter(isParameter);
  const operations = members.map((id) => nodes[id]).filter((node) => isWithin(node, paths));
  const isLayer = operations.every(({ namespace }) => namespace === paths[0]);
  const weight = parameters.map((id) => nodes[id].shape ?? []).find(({ length }) => length > 1);
  const known = sizes(kind, operations, weight);
  const region = paths.length === 1 ? regionOf(graph, paths[0]) : null;
  const taken = [...(region ? [regionWords(region)] : []), ...takenIn(nodes, members, paths[0])];
  return {
    title: room(groupTitle(paths[0], graph), "title"),
    name: null,
    // Without parameters, a class says hardly more than its name.
    shape: room(
      known ?? kind ?? counted(members.length, "node"),
      "cell",
      parameters.length > 0 ? TITLE_ROOM : PLAIN_ROOM,
    ),
    uses: null,
    flag: flags.length === 0 ? null : room(flags.join(", "), "flag"),
    stubs: [],
    tile: {
      numbers: parameters.reduce((sum, id) => sum + sizeOf(nodes[id].shape), 0),
      under: taken.length === 0 ? null : room(taken.join(" · "), "cell", UNDER_ROOM),
      isLayer,
    },
  };
}

/** Whether an operation belongs to one of these modules. Leaves are ignored: they may be placed elsewhere. */
function isWithin(node: NodeModel, paths: readonly string[]): boolean {
  const { namespace } = node;
  if (!isWork(node) || !namespace) return false;
  return paths.some((path) => namespace === path || namespace.startsWith(`${path}/`));
}

/** What a layer took in of what follows it, in the order of the forward pass: a module with parameters by its name, "bn1 · relu". */
function takenIn(nodes: GraphModel["nodes"], members: readonly number[], path: string): string[] {
  const others = members.filter((id) => {
    const { kind, namespace } = nodes[id];
    return kind === "op" && namespace !== path && !namespace?.startsWith(`${path}/`);
  });
  if (others.length > MOST_NAMED) return [];
  // Nodes are numbered from the outputs on.
  return others.reverse().map((id) => {
    const { namespace, sign, op } = nodes[id];
    const name = namespace?.slice(namespace.lastIndexOf("/") + 1) ?? "";
    return /norm/.test(sign ?? op) && /\D/.test(name) ? name : (sign ?? op);
  });
}

/**
 * What a layer is best known by: the window, its step and the channels of a convolution, the window of a pooling, what a
 * linear layer or an embedding maps. Null of what has more than one of these.
 */
function sizes(
  kind: string | null,
  operations: readonly NodeModel[],
  weight: readonly number[] | undefined,
): string | null {
  if (weight && kind === "Linear") return `${weight[1]} → ${weight[0]}`;
  if (weight && kind === "Embedding") return `${weight[0]} × ${weight[1]}`;
  if (operations.length > MOST_OPERATIONS) return null;
  const windows = new Set<string>();
  for (const { sign, shape } of operations) {
    const [, word, window] = /^(conv|max pool|avg pool)\S* (\d.*)$/.exec(sign ?? "") ?? [];
    if (word) windows.add(word === "conv" && shape ? `${window} · ${shape[1]}` : window);
  }
  const [window] = windows;
  return windows.size === 1 ? window : null;
}

/**
 * The end of a path that tells what it is: "linear1", but "layers.0" where the last part is only a number. What is only a
 * number is called as its parameters are, "net.0", where the graph tells; the box of what is inside of a node as the node.
 */
export function groupTitle(path: string, graph?: Pick<GraphModel, "nodes">): string {
  // The box of a region does not belong to the name of a module in it.
  const parts = path.split("/").filter((part, i, all) => i === all.length - 1 || isModule(part));
  const name = parts[parts.length - 1];
  const [isOfNode, called, number = ""] = OF_NODE.exec(name) ?? [];
  if (isOfNode) {
    return (
      signOf(path, graph) ?? `${called === "CompiledFunction" ? "compiled code" : called}${number}`
    );
  }
  if (!/^\d+$/.test(name)) return name;
  if (parts.length > 1) return parts.slice(-2).join(".");
  const root = graph && rootIn(graph);
  return root ? `${root}.${name}` : name;
}

/** The box of what is inside of a node, by its place among several of its class. */
const OF_NODE = /^(\w+)Backward( \d+)?$/;

/** What an opened node says of itself, "compiled: 17 calls". */
function signOf(path: string, graph?: Pick<GraphModel, "nodes">): string | null {
  return (
    graph?.nodes.find(({ kind, namespace }) => kind === "op" && namespace === path)?.sign ?? null
  );
}

/** What the modules around all others are called in the names of parameters; null where these do not agree. */
function rootIn(graph: Pick<GraphModel, "nodes">): string | null {
  let root = roots.get(graph);
  if (root === undefined) {
    const tops = new Set(
      graph.nodes.flatMap((node) =>
        isWork(node) && node.namespace ? (node.namespace.split("/").find(isModule) ?? []) : [],
      ),
    );
    const all = new Set<string>();
    for (const { kind, name } of graph.nodes) {
      const parts = kind === "leaf" && name ? name.split(".") : [];
      const at = parts.findIndex((part, i) => i > 0 && /^\d+$/.test(part) && tops.has(part));
      if (at > 0) all.add(parts[at - 1]);
    }
    const [only] = all;
    root = (all.size === 1 && only) || null;
    roots.set(graph, root);
  }
  return root;
}

const roots = new WeakMap<object, string | null>();
