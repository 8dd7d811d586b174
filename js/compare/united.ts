import { shownGraph } from "../scene/shown_graph";
import type { EdgeModel, GraphModel, NodeModel, PaneModel } from "../wire";
import { type Members, type PlaceEdge, slotsOf } from "./slots";

/** All graphs of a comparison laid on top of each other. Nodes of all of them together are called places. */
export interface United {
  /** Every place, from the first graph that has it, for searching and for words. Without edges. */
  graph: GraphModel;
  members: Members;
  panes: readonly Pane[];
  /** What is laid out: places that stand for each other share a slot, and what is not drawn has none. */
  slots: GraphModel;
  /** Per slot, its node in each graph, or null. */
  slotMembers: Members;
  /** Per place, its slot; -1 if it is not drawn in any graph. */
  slot: Int32Array;
}

/** One of the graphs, and where its parts are in all of them together. */
export interface Pane {
  label: string;
  graph: GraphModel;
  /** Per node of it, its place. */
  place: Int32Array;
  /** Per edge of it, the edge between slots. */
  edge: Int32Array;
}

/** Lays the graphs on each other, or throws one whole sentence that says what is wrong with them. */
export function unite(given: readonly PaneModel[], members: Members, constants = true): United {
  if (given.length < 2) throw new Error("Python sent fewer than two graphs to compare.");
  // Of several loaded ranks, compare the one that is shown.
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
      const use = isMixed ? [] : [one.input_nr, one.argument, one.output_nr];
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
  const lost = places.indexOf(-1);
  if (lost >= 0) throw new Error(`Node ${lost} of graph ${p + 1} has no place in the comparison.`);
  return places;
}

function placeEdges({ edges, roots }: GraphModel, place: Int32Array): PlaceEdge[] {
  return [
    ...edges.map(({ source, target, input_nr, argument }) => ({
      source: place[source],
      target: place[target],
      input_nr,
      argument,
    })),
    ...roots.map(({ node }, k) => ({
      source: -1,
      target: place[node],
      input_nr: k,
      argument: null,
    })),
  ];
}

/** The slots that have a node of some graph, numbered anew in the same order, and per slot the nodes of its places. */
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

/** What is known of a place: the node of the first graph that has it, and the first name. */
function nodeAt(
  graphs: readonly GraphModel[],
  of: readonly (number | null)[],
  id: number,
): NodeModel {
  const nodes = of.flatMap((node, p) => (node === null ? [] : [graphs[p].nodes[node]]));
  if (nodes.length === 0) throw new Error(`Place ${id} of the comparison is in no graph.`);
  const named = nodes.find((node) => node.name !== null) ?? nodes[0];
  return { ...nodes[0], id, name: named.name, label: named.label };
}

/** What to say of a node that not all graphs have: "only here", or "in 2 of 3"; null of one that all have. */
export function onlyWords(of: readonly (number | null)[]): string | null {
  const held = of.filter((node) => node !== null).length;
  if (held === of.length) return null;
  return held === 1 ? "only here" : `in ${held} of ${of.length}`;
}
