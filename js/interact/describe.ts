import { NO_FLOW } from "../paint/edge_parts";
import type { Marks } from "../paint/marks";
import { stripAt } from "../paint/rank_strips";
import { tileAt } from "../paint/tiles";
import { againWords, regionOf } from "../scene/checkpoints";
import { edgesOf } from "../scene/members";
import { classOf, fullNameOf, isModule } from "../scene/module_class";
import { argumentOf, flagsOf, roleOf } from "../scene/node_words";
import type { ClosedGroup } from "../scene/plan";
import type { SceneEdge, SceneNode } from "../scene/scene";
import { isAutograd, isWork } from "../scene/shown_graph";
import { addedTo, flowedAt, type Progress, passedIn, storedNow } from "../steps/recording";
import { describeState } from "../steps/words";
import { exactly, exactText } from "../text/gradient";
import { counted } from "../text/number";
import { formatShape, oneLine } from "../text/shorten";
import type { EdgeModel, FewModel, GraphModel, NodeModel } from "../wire";

/** A node's words: lines of the tooltip, and text for a screen reader. */
export interface Description {
  title: string;
  lines: string[];
}

export function describe(graph: GraphModel, id: number, marks: Marks): Description {
  const node = graph.nodes[id];
  if (!isAutograd(node)) return describeQuiet(graph, node, marks);
  const leaf = node.kind === "leaf";
  const name = node.name === null ? null : oneLine(node.name);
  const flags = flagsOf(graph).get(id);
  const lines: string[] = [];
  lines.push(
    leaf
      ? (roleOf(node) ?? "leaf that requires grad")
      : name === null
        ? "operation"
        : `${node.op}, an operation`,
  );
  if (flags)
    lines.push(
      flags.every((flag) => flag === node.name)
        ? "output"
        : `output: ${flags.map(oneLine).join(", ")}`,
    );
  lines.push(...valueLine(node));
  if (node.shape !== null) lines.push(`shape ${formatShape(node.shape)}`);
  const uses = leaf ? usesOf(graph, id) : 0;
  if (uses > 1) lines.push(`used ${counted(uses, "time")}`);
  if (node.namespace) lines.push(`in ${oneLine(moduleName(node.namespace))}`);
  if (node.checkpoint !== null) {
    const { saves } = graph.checkpoints[node.checkpoint];
    lines.push(`runs forward again in backward${saves && `: its part ${saves}`}`);
  }
  for (const { node: other, of } of graph.derivatives) {
    if (other === id) lines.push(`derivative of ${oneLine(graph.nodes[of].label)}`);
  }
  if (node.no_grad_inputs.length > 0) {
    lines.push(`no grad: ${node.no_grad_inputs.slice(0, 8).map(argumentOf).join(", ")}`);
  }
  if (marks.progress) {
    lines.push(...gradientLine(marks.progress, id));
    lines.push(describeState(marks.progress, id));
    for (const { note } of marks.progress.recording.marks.get(id) ?? []) lines.push(oneLine(note));
  } else {
    const held = marks.held.get(id);
    if (held) lines.push(`.grad ${exactText(held)}`);
    if (marks.ran) lines.push(marks.reached.has(id) ? "a gradient arrived" : "no gradient arrived");
  }
  if (marks.freed.has(id)) lines.push("saved tensors freed");
  return { title: name ?? (leaf ? oneLine(node.label) : node.op), lines };
}

export function describeEdge(graph: GraphModel, edge: SceneEdge, marks: Marks): Description {
  const parts = edgesOf(edge);
  const last = parts[parts.length - 1];
  const [first, end] = [graph.edges[parts[0]], graph.edges[last]];
  const title = `${calledIn(graph, first.source)} → ${calledIn(graph, end.target)}`;
  const lines: string[] = [];
  const count = edge.merged?.count ?? 1;
  if (count > 1) lines.push(counted(count, "edge"));
  else if (end.kind === "cut") lines.push(NO_FLOW);
  else if (end.argument !== null && parts.length === 1)
    lines.push(`${end.argument} of ${oneLine(graph.nodes[end.source].op)}`);
  if (parts.every((e) => graph.edges[e].target === end.target) || count === 1)
    lines.push(...shapeLine(graph, end));
  const passed = marks.progress && count === 1 && passedAt(marks.progress, last);
  if (passed) lines.push(`gradient ${exactText(passed)}`);
  return { title, lines };
}

/** The shape of an edge's tensor, which a short arrow has no room for; none where it is not known. */
function shapeLine({ nodes }: GraphModel, { target, output_nr }: EdgeModel): string[] {
  const { shape } = nodes[target];
  return shape === null || output_nr !== 0 ? [] : [`shape ${formatShape(shape)}`];
}

function calledIn({ nodes }: GraphModel, id: number): string {
  return oneLine(nodes[id].name ?? nodes[id].label);
}

/** The gradient that has flowed along an edge at the cursor. */
function passedAt({ recording, cursor }: Progress, edge: number): FewModel | null {
  const { run } = recording;
  const at = run?.edges.indexOf(edge) ?? -1;
  return run && at >= 0 && flowedAt(recording, edge, cursor) ? passedIn(run, at) : null;
}

function usesOf({ edges }: GraphModel, id: number): number {
  return edges.filter(({ target, kind }) => target === id && kind === "gradient").length;
}

/** A module's name in the user's program: "encoder.layers.0". */
function moduleName(namespace: string): string {
  return namespace.replaceAll("/", ".");
}

const QUIET_WORDS = {
  constant: "constant: needs no grad",
  cut: NO_FLOW,
  outside: "requires grad, but is not part of this graph",
};

function quietWords({ nodes }: GraphModel, { kind, inside }: NodeModel): string {
  if (kind !== "call") return QUIET_WORDS[kind as keyof typeof QUIET_WORDS];
  const of = inside === null ? null : nodes[inside].op;
  return of === "CompiledFunctionBackward"
    ? "call inside of compiled code"
    : "operation that its backward ran";
}

/** A node's value, unless its name already is the value. */
function valueLine({ value, shape, label, changed, in_backward }: NodeModel): string[] {
  if (in_backward && value === null && shape?.length === 0)
    return ["value unknown: made inside backward, which watch() does not see"];
  if (changed) return ["value not known: changed in place since"];
  if (changed === null && value !== null)
    return [`value now ${exactly(value)}, perhaps changed in place since`];
  const text = value === null ? label : exactly(value);
  return text === label ? [] : [`value ${text}`];
}

/** A node's gradient at the cursor, or its `.grad`. */
function gradientLine({ recording, cursor }: Progress, id: number): string[] {
  const { stored, gradients, step, ready } = recording;
  const held = stored.get(id);
  const now = storedNow(recording, id);
  if (held && step[id] <= cursor) {
    const added = addedTo(recording, id)?.map(exactly).join(" + ");
    const sum = added && !held.changed ? `${added} = ` : "";
    return [
      `.grad ${sum}${now ? exactText(now) : "None"}`,
      ...(held.changed ? [`it was ${exactText(held)} after the pass`] : []),
    ];
  }
  const came = gradients.get(id);
  return came && step[id] > 0 && ready[id] <= cursor ? [`gradient ${exactText(came)}`] : [];
}

/** The words of a call, a constant, a cut or an outside tensor. */
function describeQuiet(graph: GraphModel, node: NodeModel, { progress }: Marks): Description {
  const lines: string[] = [];
  if (graph.static) lines.push(node.op);
  else if (node.kind !== "op" && node.kind !== "leaf") lines.push(quietWords(graph, node));
  if (node.kind === "cut" && node.op !== node.label) lines.push(oneLine(node.op));
  for (const { source, target, kind } of graph.edges) {
    if (kind === "cut" && source === node.id)
      lines.push(`cut off from ${oneLine(graph.nodes[target].label)}`);
  }
  if (node.recomputed) lines.push("recomputed: a call of the forward pass, run in backward");
  lines.push(...valueLine(node));
  if (node.shape !== null) lines.push(`shape ${formatShape(node.shape)}`);
  if (node.kind === "call" && node.namespace)
    lines.push(`in ${oneLine(moduleName(node.namespace))}`);
  if (node.inferred) lines.push("inferred from what its operation saved");
  if (node.kind === "call" && progress)
    lines.push(...gradientLine(progress, node.id), describeState(progress, node.id));
  return { title: oneLine(node.label), lines };
}

/** The most operations that a box' description names. */
const MOST_NAMED = 4;

/** Added for a closed box that the reader can open. */
export const HOW_TO_OPEN = "closed: double-click or Enter opens it, a click or Space selects it";

/** A drawn node's words. */
export function describeDrawn(graph: GraphModel, node: SceneNode, marks: Marks): Description {
  const { title, lines } = node.group
    ? describeBox(graph, node.group, marks)
    : describe(graph, node.id, marks);
  const share = marks.progress && node.use !== undefined && passedAt(marks.progress, node.use);
  const facts = [
    node.only,
    share && `share of this use ${exactText(share)}`,
    tileAt(node, marks)?.words,
    marks.tint?.words(node),
    stripAt(node, marks)?.words,
  ].filter((words): words is string => typeof words === "string");
  return { title, lines: [...facts, ...lines] };
}

/** The shape of a box' output, if that is one tensor. */
function outputLine({ nodes, edges, roots }: GraphModel, members: readonly number[]): string[] {
  const inside = new Set(members);
  const used = edges.filter(({ source, target, kind }) => {
    return kind === "gradient" && inside.has(target) && !inside.has(source);
  });
  const own = roots.filter(({ node }) => inside.has(node));
  const made = new Set([...used.map(({ target }) => target), ...own.map(({ node }) => node)]);
  const [output] = made;
  const isOne = made.size === 1 && [...used, ...own].every(({ output_nr }) => output_nr === 0);
  const shape = isOne ? nodes[output].shape : null;
  return shape === null ? [] : [`output ${formatShape(shape)}`];
}

/** A closed box' words. */
function describeBox(graph: GraphModel, group: ClosedGroup, marks: Marks): Description {
  const { paths, members } = group;
  const counts = new Map<string, number>();
  let leaves = 0;
  for (const id of members) {
    const { kind, op } = graph.nodes[id];
    if (isWork(graph.nodes[id])) counts.set(op, (counts.get(op) ?? 0) + 1);
    if (kind === "leaf") leaves++;
  }
  const kind = oneLine(classOf(graph, paths[0]) ?? "");
  const what = kind || (isModule(paths[0]) ? "module" : "no module, but a box");
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_NAMED);
  const lines = [
    `${what} of ${counted(members.length, "node")}, ${counted(leaves, "leaf", "leaves")}`,
    ...outputLine(graph, members),
    ...common.map(([op, count]) => `${count} × ${oneLine(op)}`),
  ];
  if (counts.size > MOST_NAMED) lines.push(`and ${counts.size - MOST_NAMED} other operations`);
  for (const id of members)
    for (const { note } of marks.progress?.recording.marks.get(id) ?? []) lines.push(oneLine(note));
  const region = regionOf(graph, paths[0]);
  if (region) lines.push(`runs forward again in backward${region.saves && `: ${region.saves}`}`);
  else if (againWords(graph, paths[0]) !== null) lines.push("advised to be checkpointed");
  lines.push(HOW_TO_OPEN);
  return { title: oneLine(fullNameOf(paths[0])), lines };
}
