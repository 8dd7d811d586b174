import { perObject } from "../maps";
import type { EdgeModel, GraphModel } from "../wire";

/** [consumer, arg_nr] of an edge with gradients, as Python names it. */
export type EdgeId = readonly [number, number];

/** The edges of a graph by their names. */
const placesIn = perObject(({ edges }: GraphModel) => {
  const places = new Map(edges.map((edge, place) => [`${nameOf(edge)}`, place]));
  places.delete("null");
  return places;
});

/** The name of an edge; null if it has no gradient. */
export function nameOf({ kind, source, arg_nr }: EdgeModel): EdgeId | null {
  return kind === "gradient" && arg_nr !== null ? [source, arg_nr] : null;
}

/** The index of an edge in the graph; null if there is none. */
export function placeOf(graph: GraphModel, edge: EdgeId): number | null {
  return placesIn(graph).get(`${edge}`) ?? null;
}

/** The edges with a node's incoming gradients. */
export function edgesInto({ edges }: GraphModel, node: number): EdgeId[] {
  return edges.flatMap((edge) => {
    const name = edge.target === node ? nameOf(edge) : null;
    return name ? [name] : [];
  });
}

/** "out → h", with the argument if one operation takes a tensor twice. */
export function edgeLabel(graph: GraphModel, edge: EdgeId): string {
  const place = placeOf(graph, edge);
  if (place === null) return "an edge";
  const { source, target, argument } = graph.edges[place];
  const twice = edgesInto(graph, target).filter(([consumer]) => consumer === source).length > 1;
  const as = twice ? ` (${argument ?? `input ${edge[1]}`})` : "";
  return `${graph.nodes[source].label} → ${graph.nodes[target].label}${as}`;
}
