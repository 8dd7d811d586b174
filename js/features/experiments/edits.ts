import { listsBy } from "../../maps";
import { type EdgeId, nameOf, placeOf } from "../../scene/edge_id";
import { edgeFor, edgesOf } from "../../scene/members";
import type { Scene, SceneEdge } from "../../scene/scene";
import type { EditModel, GraphModel } from "../../wire";

/** The line of an edge; null if it is hidden. */
export function lineOf(graph: GraphModel, scene: Scene, edge: EdgeId): SceneEdge | null {
  const place = placeOf(graph, edge);
  return (place !== null && edgeFor(scene, place)) || null;
}

/** The only edge of a line; null if the line merges several or has no gradient. */
export function edgeBehind({ edges }: GraphModel, line: SceneEdge): EdgeId | null {
  if (line.quiet || (line.merged?.count ?? 1) > 1) return null;
  return nameOf(edges[edgesOf(line)[0]]);
}

function isAt(edit: EditModel, [consumer, argNr]: EdgeId): boolean {
  return typeof edit.edge !== "string" && edit.edge[0] === consumer && edit.edge[1] === argNr;
}

/** The active edit of an edge, the last one that is on; null for none. */
export function editAt(edits: readonly EditModel[], edge: EdgeId): EditModel | null {
  return edits.filter((edit) => !edit.off && isAt(edit, edge)).at(-1) ?? null;
}

/** Replace an edge's edit, or remove it. Edits that are off stay for comparison. */
export function setEdit(
  edits: readonly EditModel[],
  edge: EdgeId,
  done: Pick<EditModel, "kind" | "value"> | null,
): EditModel[] {
  const now = editAt(edits, edge);
  const isOther = (edit: EditModel) => edit.off || !isAt(edit, edge);
  if (done === null) return edits.filter(isOther);
  const next = { edge: [...edge], name: null, off: false, ...now, ...done };
  if (now === null) return [...edits, next];
  return edits.flatMap((edit) => (edit === now ? [next] : isOther(edit) ? [edit] : []));
}

/** Cut an edge, or restore it. */
export function toggleCut(edits: readonly EditModel[], edge: EdgeId): EditModel[] {
  const isCut = editAt(edits, edge)?.kind === "cut";
  return setEdit(edits, edge, isCut ? null : { kind: "cut", value: null });
}

/** Scale an edge's gradient; a factor of 1 removes the edit. */
export function setFactor(
  edits: readonly EditModel[],
  edge: EdgeId,
  factor: number | null,
): EditModel[] {
  const isNone = factor === null || factor === 1;
  return setEdit(edits, edge, isNone ? null : { kind: "scale", value: factor });
}

/** Replace one edit. */
export function changed(
  edits: readonly EditModel[],
  at: number,
  change: Partial<EditModel>,
): EditModel[] {
  return edits.map((edit, i) => (i === at ? { ...edit, ...change } : edit));
}

/** The name whose edits are exactly those that are on; null if there is none. */
export function nameThatIsOn(edits: readonly EditModel[]): string | null {
  const [name] = edits.filter(({ off }) => !off).map((edit) => edit.name);
  const isAll = edits.every((edit) => edit.off === (edit.name !== name));
  return (isAll && name) || null;
}

/** Parse a factor, "0.5", "1e-3", "1/3", "−2"; null if it is invalid. */
export function readFactor(text: string): number | null {
  const plain = text.replaceAll("\u2212", "-").replaceAll("×", "").trim();
  if (plain === "") return null;
  const [over, under, ...more] = plain.split("/").map(Number);
  const value = under === undefined ? over : over / under;
  return more.length === 0 && Number.isFinite(value) ? value : null;
}

/** Parse a number, or several as "1, 2, 3" or "[1 2 3]"; null if invalid. */
export function readNumbers(text: string): number | number[] | null {
  const words = text
    .replaceAll(/[=[\]]/g, " ")
    .trim()
    .split(/[\s,;]+/);
  const found = words.map(readFactor);
  if (found.includes(null)) return null;
  return found.length === 1 ? found[0] : (found as number[]);
}

/** The shortest path of edges from an output to a node and along one more edge, as indices. */
export function wayTo(graph: GraphModel, edge: EdgeId): number[] {
  const last = placeOf(graph, edge);
  if (last === null) return [];
  const roots = new Set(graph.roots.map(({ node }) => node));
  const into = listsBy(graph.edges.keys(), (place) => {
    const { kind, target } = graph.edges[place];
    return kind === "gradient" ? target : null;
  });
  const taken = new Map<number, number>();
  const waiting = [edge[0]];
  for (const node of waiting) {
    if (roots.has(node)) {
      const way: number[] = [];
      for (let at = node; at !== edge[0]; ) {
        const place = taken.get(at) as number;
        way.push(place);
        at = graph.edges[place].target;
      }
      return [...way, last];
    }
    for (const place of into.get(node) ?? []) {
      const { source } = graph.edges[place];
      if (source === edge[0] || taken.has(source)) continue;
      taken.set(source, place);
      waiting.push(source);
    }
  }
  return [last];
}
