import { makeGraph } from "../layout/graph";
import { topological } from "../layout/rank";
import { shownGraph } from "../scene/shown_graph";
import type { EdgeModel, GraphModel, NodeModel, PaneModel } from "../wire";

/** All graphs of a comparison, united. Its nodes are called places. */
export interface United {
  /** Every place as the first graph has it, for search and words. Without edges. */
  graph: GraphModel;
  members: Members;
  panes: readonly Pane[];
  /** The graph to lay out: matching places share a slot, and hidden places have none. */
  slots: GraphModel;
  /** Per slot, its node in each graph, or null. */
  slotMembers: Members;
  /** Per place, its slot; -1 if no graph draws it. */
  slot: Int32Array;
}

/** One graph and the position of its parts in the united graph. */
export interface Pane {
  label: string;
  graph: GraphModel;
  /** Per node, its place. */
  place: Int32Array;
  /** Per edge, the edge between slots. */
  edge: Int32Array;
}

/** Unite the graphs. */
export function unite(given: readonly PaneModel[], members: Members, constants = true): United {
  // Compare only the loaded rank that is shown.
  const alone = given.map(({ graph }) => ({ ...graph, ranks: null }));
  const whole = alone.map((graph) => shownGraph(graph, true));
  const graphs = constants ? whole : alone.map((graph) => shownGraph(graph, false));
  const place = whole.map((graph, p) => placesOf(graph, members, p));
  const isDrawn = (node: number | null, p: number) =>
    node !== null && node < graphs[p].nodes.length;
  const drawn = members.map((of) => of.map((node, p) => (isDrawn(node, p) ? node : null)));
  const { slot, slotMembers } = filledSlots(
    drawn,
    slotsOf(
      drawn,
      graphs.flatMap((graph, p) => placeEdges(graph, place[p])),
    ),
  );
  const edges: EdgeModel[] = [];
  const known = new Map<string, number>();
  // Static graphs name and place arguments differently.
  const isMixed = graphs.some((graph) => graph.static);
  const panes = graphs.map((graph, p): Pane => {
    const times = new Map<string, number>();
    const edge = Int32Array.from(graph.edges, (one) => {
      const source = slot[place[p][one.source]];
      const target = slot[place[p][one.target]];
      const use = isMixed ? [] : [one.arg_nr, one.argument, one.output_nr];
      const kind = [source, target, ...use].join(" ");
      const time = times.get(kind) ?? 0;
      times.set(kind, time + 1);
      const key = `${kind} ${time}`;
      const found = known.get(key);
      if (found !== undefined) return found;
      known.set(key, edges.length);
      edges.push({ ...one, source, target });
      return edges.length - 1;
    });
    return { label: given[p].label, graph, place: place[p], edge };
  });
  const slotOfNode = place.map((places) => places.map((one) => slot[one]));
  return {
    graph: joined(whole, members, place, []),
    members,
    panes,
    slots: joined(graphs, slotMembers, slotOfNode, edges),
    slotMembers,
    slot,
  };
}

function placesOf({ nodes }: GraphModel, members: Members, p: number): Int32Array {
  const places = new Int32Array(nodes.length).fill(-1);
  members.forEach((of, place) => {
    const node = of[p];
    if (node !== null && node !== undefined) places[node] = place;
  });
  return places;
}

function placeEdges({ edges, roots }: GraphModel, place: Int32Array): PlaceEdge[] {
  return [
    ...edges.map(({ source, target, arg_nr, argument }) => ({
      source: place[source],
      target: place[target],
      arg_nr,
      argument,
    })),
    ...roots.map(({ node }, k) => ({
      source: -1,
      target: place[node],
      arg_nr: k,
      argument: null,
    })),
  ];
}

/** The slots with a node in some graph, renumbered in the same order, and the nodes of their places. */
function filledSlots(members: Members, slot: Int32Array) {
  const held: (number | null)[][] = [];
  members.forEach((of, place) => {
    const before = held[slot[place]];
    held[slot[place]] = before ? before.map((node, p) => node ?? of[p]) : [...of];
  });
  const isFilled = (of: readonly (number | null)[]) => of.some((node) => node !== null);
  let count = 0;
  const at = held.map((of) => (isFilled(of) ? count++ : -1));
  return { slot: slot.map((one) => at[one]), slotMembers: held.filter(isFilled) };
}

function joined(
  graphs: readonly GraphModel[],
  members: Members,
  at: readonly Int32Array[],
  edges: EdgeModel[],
): GraphModel {
  const roots = new Map<string, GraphModel["roots"][number]>();
  graphs.forEach((graph, p) => {
    for (const root of graph.roots) {
      const node = at[p][root.node];
      const key = `${node} ${root.output_nr}`;
      if (!roots.has(key)) roots.set(key, { ...root, node });
    }
  });
  const nodes = members.map((of, id) => nodeAt(graphs, of, id));
  const known = { ...graphs[0], derivatives: [] };
  return { ...known, nodes, edges, roots: [...roots.values()] };
}

/** The node of a place: from the first graph that has it, with the first name. */
function nodeAt(
  graphs: readonly GraphModel[],
  of: readonly (number | null)[],
  id: number,
): NodeModel {
  const nodes = of.flatMap((node, p) => (node === null ? [] : [graphs[p].nodes[node]]));
  const named = nodes.find((node) => node.name !== null) ?? nodes[0];
  // Constants in signs have the numbers of one graph.
  return { ...nodes[0], id, name: named.name, label: named.label, said_by: null };
}

/** The words for a node that some graphs lack: "only here", "in 2 of 3"; null if all have it. */
export function onlyWords(of: readonly (number | null)[]): string | null {
  const held = of.filter((node) => node !== null).length;
  if (held === of.length) return null;
  return held === 1 ? "only here" : `in ${held} of ${of.length}`;
}

/** For each node of the united graphs, its number in each graph, or null. */
type Members = readonly (readonly (number | null)[])[];

/** An edge between places; for an output, source -1 and the output's number. */
interface PlaceEdge {
  source: number;
  target: number;
  arg_nr: number | null;
  argument: string | null;
}

/**
 * The slot of each place. Places share a slot if no graph has two of them and the same places use them at the same
 * arguments: a constant then lies where another graph has a leaf. A slot's number is higher than its users', so slots
 * form no cycle.
 */
function slotsOf(members: Members, edges: readonly PlaceEdge[]): Int32Array {
  const n = members.length;
  const uses: PlaceEdge[][] = members.map(() => []);
  for (const edge of edges) uses[edge.target].push(edge);
  const slot = new Int32Array(n).fill(-1);
  const held: (number | null)[][] = [];
  const known = new Map<string, number[]>();
  for (const place of orderOf(n, edges)) {
    const of = members[place];
    const key = of.includes(null) ? keyOf(uses[place], slot) : "";
    const alike = known.get(key) ?? [];
    const free = key === "" ? undefined : alike.find((one) => isFree(held[one], of));
    if (free === undefined) {
      slot[place] = held.length;
      if (key !== "") known.set(key, [...alike, held.length]);
      held.push([...of]);
    } else {
      slot[place] = free;
      held[free] = held[free].map((node, p) => node ?? of[p]);
    }
  }
  return slot;
}

function keyOf(uses: readonly PlaceEdge[], slot: Int32Array): string {
  return uses
    .map((edge) =>
      [edge.source < 0 ? "output" : slot[edge.source], edge.arg_nr, edge.argument].join(" "),
    )
    .sort()
    .join(", ");
}

function isFree(held: readonly (number | null)[], of: readonly (number | null)[]): boolean {
  return of.every((node, p) => node === null || held[p] === null);
}

function orderOf(n: number, edges: readonly PlaceEdge[]): Int32Array {
  const inner = edges.filter((edge) => edge.source >= 0);
  return topological(
    makeGraph(
      n,
      Int32Array.from(inner, (edge) => edge.source),
      Int32Array.from(inner, (edge) => edge.target),
    ),
  );
}
