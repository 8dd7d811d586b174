import { edgeLabel, placeOf } from "../../scene/edge_id";
import type {
  EditModel,
  FewModel,
  JsonNumber,
  LeafChangeModel,
  SavedGraphModel,
  ShareModel,
  WhatIfModel,
} from "../../wire";
import type { Flow, LiveProgram } from "./live_program";
import { fewOf, norm } from "./numbers";
import type { Change } from "./run";

/** The gradients of a run: of each node, null where none arrives. */
type Arrived = ReadonlyMap<number, Flow | null>;

const NOTHING: WhatIfModel = {
  failed: null,
  edits: [],
  leaves: [],
  leaf_count: 0,
  names: [],
  reached: [],
  nodes: [],
  ran: 0,
  code: "",
  notes: [],
};

/** What edits of gradients change, computed by the page's program; null without edits. */
export function effectOf(
  program: LiveProgram,
  { graph }: SavedGraphModel,
  edits: readonly EditModel[],
): WhatIfModel | null {
  if (edits.length === 0) return null;
  try {
    return new Experiment(program, graph).effect(edits);
  } catch (error) {
    return { ...NOTHING, failed: (error as Error).message };
  }
}

class Experiment {
  /** The gradient that came to each edit in the last run. */
  private readonly was = new Map<EditModel, FewModel>();

  constructor(
    private readonly program: LiveProgram,
    private readonly graph: SavedGraphModel["graph"],
  ) {}

  effect(edits: readonly EditModel[]): WhatIfModel {
    const { graph, program } = this;
    const active = edits.filter(({ off }) => !off);
    const leaves = program.inputs.filter(({ leaf, grad }) => leaf && grad !== null);
    const ids = leaves.map(({ node }) => node);
    const edges = edits.map((edit) => this.edgeOf(edit));
    const before = this.arrivals(null);
    const reached = this.below(active);
    const { after, now } = this.with(active, () => ({
      after: this.arrivals(this.alive(active)),
      now: edges.map((edge) => this.fewAlong(edge)),
    }));
    const was = new Map(this.was);
    const names = [...new Set(edits.flatMap(({ name }) => name ?? []))];
    const named = names.length < 2 ? [] : names.map((name) => this.only(edits, name));
    const rows = ids.map((id, i): LeafChangeModel => {
      const [old, other] = [before.get(id) ?? null, after.get(id) ?? null];
      const difference = less(other, old);
      return {
        node: id,
        name: program.nameOf(leaves[i]),
        before: few(old),
        after: few(other),
        difference,
        rest: difference && old && norm(old.numbers) > 0 ? rest(other, old) : null,
        named: named.map((all) => {
          const there = all.get(id) ?? null;
          return { after: few(there), changed: less(there, old) !== null };
        }),
      };
    });
    const isSame = ({ difference, named }: LeafChangeModel) =>
      difference === null && !named.some(({ changed }) => changed);
    return {
      ...NOTHING,
      edits: edits.map((edit, i) => ({
        label: edgeLabel(graph, [edit.edge[0] as number, edit.edge[1] as number]),
        was: edit.off ? null : (was.get(edit) ?? null),
        now: edit.off || edit.kind === "cut" ? null : now[i],
      })),
      leaves: rows.sort((one, other) => Number(isSame(one)) - Number(isSame(other))),
      leaf_count: rows.length,
      names: named.length > 0 ? names : [],
      reached,
      nodes: reached.map((node) => ({ node, after: few(after.get(node) ?? null) })),
      ran: reached.length,
    };
  }

  /** The gradients with only the edits of one name. */
  private only(edits: readonly EditModel[], name: string): Arrived {
    const chosen = edits.filter((edit) => edit.name === name);
    return this.with(chosen, () => this.arrivals(this.alive(chosen)));
  }

  private edgeOf({ edge }: EditModel): number {
    const place = typeof edge === "string" ? null : placeOf(this.graph, [edge[0], edge[1]]);
    if (place === null || this.program.flowAt(place) === undefined)
      throw new Error(`No gradient flows along ${String(edge)}. Choose another line.`);
    return place;
  }

  private fewAlong(edge: number): FewModel | null {
    const view = this.program.flowAt(edge);
    return view === undefined ? null : few(this.program.flow(view));
  }

  private with<T>(edits: readonly EditModel[], read: () => T): T {
    return this.program.changed(this.changes(edits), read);
  }

  private changes(edits: readonly EditModel[]): Change[] {
    const alive = this.alive(edits);
    this.was.clear();
    const found: Change[] = [];
    // Along a dead edge no gradient flows, and nothing times infinity is not a gradient.
    this.graph.edges.forEach(({ source }, edge) => {
      const view = this.program.flowAt(edge);
      if (view !== undefined && !alive.has(source))
        found.push({ view, numbers: (now) => now.map(() => 0) });
    });
    for (const edit of edits) {
      const edge = this.edgeOf(edit);
      const view = this.program.flowAt(edge) as number;
      if (!alive.has(this.graph.edges[edge].source)) continue;
      const { shape } = this.program.flow(view);
      const numbers = (now: readonly number[]) => {
        this.was.set(edit, fewOf(now, shape));
        return edited(now, edit);
      };
      found.push({ view, numbers });
    }
    return found;
  }

  private cutBy(edits: readonly EditModel[]): ReadonlySet<number> {
    return new Set(edits.filter(({ kind }) => kind === "cut").map((edit) => this.edgeOf(edit)));
  }

  /** The nodes that a gradient still comes to. */
  private alive(edits: readonly EditModel[]): ReadonlySet<number> {
    const cut = this.cutBy(edits);
    return this.from(
      this.graph.roots.map(({ node }) => node),
      (edge) => !cut.has(edge) && this.program.flowAt(edge) !== undefined,
    );
  }

  /** The nodes below the edits. */
  private below(edits: readonly EditModel[]): number[] {
    const first = edits.map((edit) => this.graph.edges[this.edgeOf(edit)].target);
    return [...this.from(first, (edge) => this.program.flowAt(edge) !== undefined)].sort(
      (one, other) => one - other,
    );
  }

  private from(first: readonly number[], passes: (edge: number) => boolean): ReadonlySet<number> {
    const found = new Set(first);
    const targets = this.graph.nodes.map((): number[] => []);
    this.graph.edges.forEach(({ kind, source, target }, edge) => {
      if (kind === "gradient" && passes(edge)) targets[source].push(target);
    });
    for (const node of found) for (const target of targets[node]) found.add(target); // grows
    return found;
  }

  private arrivals(alive: ReadonlySet<number> | null): Arrived {
    return new Map(
      this.graph.nodes.map(({ id }) => [
        id,
        alive === null || alive.has(id) ? this.program.arrivedAt(id) : null,
      ]),
    );
  }
}

function edited(now: readonly number[], { kind, value }: EditModel): readonly number[] {
  if (kind === "cut") return now.map(() => 0);
  if (kind === "scale") return now.map((one) => one * Number(value));
  const given = [value].flat(8) as JsonNumber[];
  if (given.length !== 1 && given.length !== now.length)
    throw new Error(
      `${given.length} numbers were given for a gradient of ${now.length}. Give 1, or ${now.length}.`,
    );
  return now.map((_, i) => Number(given[given.length === 1 ? 0 : i]));
}

function few(flow: Flow | null): FewModel | null {
  return flow && fewOf(flow.numbers, flow.shape);
}

/** After minus before; null where they are the same. */
function less(after: Flow | null, before: Flow | null): FewModel | null {
  const [shape] = [after, before].flatMap((one) => (one ? [one.shape] : []));
  if (!shape) return null;
  const count = (after ?? before)?.numbers.length ?? 0;
  const differences = Array.from(
    { length: count },
    (_, i) => (after?.numbers[i] ?? 0) - (before?.numbers[i] ?? 0),
  );
  const isSame = after !== null && before !== null && differences.every((one) => one === 0);
  return isSame ? null : fewOf(differences, shape);
}

function rest(after: Flow | null, before: Flow): number | null {
  const left = (after ? norm(after.numbers) : 0) / norm(before.numbers);
  return Number.isFinite(left) ? left : null;
}

/** The part of each use in a node's gradient; the parts add up to 1. */
export function sharesOf(
  program: LiveProgram,
  { graph }: SavedGraphModel,
  node: number | null,
): ShareModel[] {
  const total = node === null ? null : program.arrivedAt(node);
  const size = total ? total.numbers.reduce((sum, one) => sum + one * one, 0) : 0;
  if (!total || size === 0) return [];
  const found = graph.edges.flatMap(({ kind, source, target, arg_nr }, edge): ShareModel[] => {
    const view = kind === "gradient" && target === node ? program.flowAt(edge) : undefined;
    if (view === undefined || arg_nr === null) return [];
    const { numbers } = program.flow(view);
    const along = numbers.reduce((sum, one, i) => sum + one * total.numbers[i], 0);
    const { label } = graph.nodes[source];
    return [{ consumer: source, arg_nr, label, share: along / size }];
  });
  const isKnown = found.length > 1 && found.every(({ share }) => Number.isFinite(share));
  return isKnown ? found.sort((one, other) => Math.abs(other.share) - Math.abs(one.share)) : [];
}
