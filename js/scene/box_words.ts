import { perObject } from "../maps";
import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import { formatShape, oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel, NodeModel } from "../wire";
import { againWords } from "./checkpoints";
import { classOf, isModule, isPart, listedOf, titleOf } from "./module_class";
import { type NodeWords, valueText } from "./node_words";
import { sizeOf } from "./parameters";
import { partWords } from "./part_words";
import type { ClosedGroup } from "./plan";
import { isWork } from "./shown_graph";

const TITLE_ROOM = 180;
const UNDER_ROOM = 130;
/** The most followers of a layer to name. */
const MOST_NAMED = 3;
/** Among more operations, a single convolution says little. */
const MOST_OPERATIONS = 6;

/** The words on a closed box; `isParameter` tests a node of `graph`. */
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
  const parameters = members.filter(isParameter);
  const operations = members.map((id) => nodes[id]).filter((node) => isWithin(node, paths));
  const kind = classOf(graph, paths[0]);
  const content = isPart(paths[0])
    ? partWords(operations, (words) => measure(words, "cell") <= UNDER_ROOM)
    : listedOf(graph, paths[0]);
  const isLayer = operations.every(({ namespace }) => namespace === paths[0]);
  const weight = parameters.map((id) => nodes[id].shape ?? []).find(({ length }) => length > 1);
  const title = room(groupTitle(paths[0], graph), "title");
  const [{ shape = null } = {}, ...others] = operations;
  const isWritten = others.length === 0 && shape && title.toLowerCase() === kind?.toLowerCase();
  const known =
    outputIn(graph, members) ??
    sizes(kind, operations, weight) ??
    (isWritten ? formatShape(shape) : null);
  const again = paths.length === 1 ? againWords(graph, paths[0]) : null;
  const groups = groupsOf(operations, paths[0]);
  const taken = [...(again === null ? [] : [again]), ...takenIn(nodes, members, paths[0])];
  return {
    title,
    name: null,
    shape: room(known ?? (content && content + groups) ?? counted(members.length, "node"), "cell"),
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

/** The value of the only output in a box, such as a loss; null if it is not one number. */
function outputIn({ nodes, roots }: GraphModel, members: readonly number[]): string | null {
  const inside = new Set(members);
  const [output, ...others] = roots.filter(({ node }) => inside.has(node));
  if (!output || others.length > 0) return null;
  const { value, shape } = nodes[output.node];
  return value === null || shape?.length !== 0 ? null : valueText(nodes[output.node], value);
}

/** Whether an operation belongs to one of these modules. Leaves are ignored: they may be elsewhere. */
function isWithin(node: NodeModel, paths: readonly string[]): boolean {
  const { namespace } = node;
  if (!isWork(node) || !namespace) return false;
  return paths.some((path) => namespace === path || namespace.startsWith(`${path}/`));
}

/** The followers that a layer absorbed, in forward order; a module with parameters by its name, "bn1 · relu". */
function takenIn(nodes: GraphModel["nodes"], members: readonly number[], path: string): string[] {
  const others = members.filter((id) => {
    const { kind, namespace } = nodes[id];
    return kind === "op" && namespace !== path && !namespace?.startsWith(`${path}/`);
  });
  if (others.length > MOST_NAMED) return [];
  // Nodes are numbered from the outputs.
  return others.reverse().map((id) => {
    const { namespace, sign, op } = nodes[id];
    const name = namespace?.slice(namespace.lastIndexOf("/") + 1) ?? "";
    return /norm/.test(sign ?? op) && /\D/.test(name) ? name : (sign ?? op);
  });
}

/** A layer's best-known sizes: kernel, stride and channels, or a mapping; null if it has several of these. */
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

/** The number of groups of a module's own grouped products, " · 4 groups" for 4 experts; empty without any, or if they differ. */
function groupsOf(operations: readonly NodeModel[], path: string): string {
  const own = operations.filter(({ namespace }) => namespace === path);
  const found = new Set(own.flatMap(({ sign }) => /, (\d+ groups?)$/.exec(sign ?? "")?.[1] ?? []));
  return found.size === 1 ? ` · ${[...found]}` : "";
}

/**
 * The meaningful end of a path: "linear1", but "layers.0" if the last part is a number. A number without a name takes its
 * parameters' prefix, "net.0", if the graph has it; an opened node's box takes the node's name. A module that no
 * variable holds, "(Tanh)", goes by its class.
 */
export function groupTitle(path: string, graph?: Pick<GraphModel, "nodes">): string {
  // A region's box is not part of its modules' names.
  const parts = path.split("/").filter((part, i, all) => i === all.length - 1 || isModule(part));
  const name = parts[parts.length - 1];
  const [isOfNode, called, number = ""] = OF_NODE.exec(name) ?? [];
  if (isOfNode) {
    return (
      signOf(path, graph) ?? `${called === "CompiledFunction" ? "compiled code" : called}${number}`
    );
  }
  if (parts.length > 1 || !/^\d+$/.test(name))
    return titleOf(parts.join("/")).replace(OF_CLASS, "$1");
  const root = graph && rootIn(graph);
  return root ? `${root}.${name}` : name;
}

/** The name of a module anywhere in a model: its path, "encoder.0", or a first part as its box writes it. */
export function moduleName(path: string, graph: Pick<GraphModel, "nodes">): string {
  return oneLine(path.includes("/") ? path.replaceAll("/", ".") : groupTitle(path, graph));
}

const OF_CLASS = /^\((\w+(?: \d+)?)\)/;

/** An opened node's box, by its number among several of its class. */
const OF_NODE = /^(\w+)Backward( \d+)?$/;

/** An opened node's note, "compiled: 17 calls". */
function signOf(path: string, graph?: Pick<GraphModel, "nodes">): string | null {
  return (
    graph?.nodes.find(({ kind, namespace }) => kind === "op" && namespace === path)?.sign ?? null
  );
}

/** The prefix of all parameters' names; null if they differ. */
const rootIn = perObject(({ nodes }: Pick<GraphModel, "nodes">): string | null => {
  const tops = new Set(
    nodes.flatMap((node) =>
      isWork(node) && node.namespace ? (node.namespace.split("/").find(isModule) ?? []) : [],
    ),
  );
  const all = new Set<string>();
  for (const { kind, name } of nodes) {
    const parts = kind === "leaf" && name ? name.split(".") : [];
    const at = parts.findIndex((part, i) => i > 0 && /^\d+$/.test(part) && tops.has(part));
    if (at > 0) all.add(parts[at - 1]);
  }
  const [only] = all;
  return (all.size === 1 && only) || null;
});
