import { makeGraph } from "../layout/graph";
import { topological } from "../layout/rank";

/** For each node of the united graphs, its number in each graph, or null. */
export type Members = readonly (readonly (number | null)[])[];

/** An edge between places; for an output, source -1 and the output's number. */
export interface PlaceEdge {
  source: number;
  target: number;
  input_nr: number | null;
  argument: string | null;
}

/**
 * The slot of each place. Places share a slot if no graph has two of them and the same places use them at the same
 * arguments: a constant then lies where another graph has a leaf. A slot's number is higher than its users', so slots
 * form no cycle.
 */
export function slotsOf(members: Members, edges: readonly PlaceEdge[]): Int32Array {
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
      [edge.source < 0 ? "output" : slot[edge.source], edge.input_nr, edge.argument].join(" "),
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
