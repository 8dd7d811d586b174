import { valueAt } from "../maps";
import type { PlanEdge } from "../scene/plan";
import type { GraphModel } from "../wire";
import type { Visible } from "./reduce";

/** A node of the picture: a visible node, or a strip with the visible node of each block. */
export interface Item {
  v: number;
  run: readonly number[];
  blocks: number[];
  /** Between neighbouring blocks, by their numbers. */
  links: Map<string, Line>;
  /** The parameters that are counted in its head; visible nodes. */
  shared: readonly number[];
}

/** A line of a picture with strips; its ends are items. */
export interface Line extends Pick<PlanEdge, "source" | "target" | "count"> {
  edges: number[];
  folded: number[];
}

export function emptyLine(source: number, target: number): Line {
  return { source, target, count: 0, edges: [], folded: [] };
}

export function extend(line: Line, { count, edges, folded }: Omit<Line, "source" | "target">) {
  line.count += count;
  for (const e of edges) line.edges.push(e);
  for (const v of folded) line.folded.push(v);
}

/** The items of a picture and the lines between them. */
export interface Items {
  items: Item[];
  /** Per visible node, its item; -1 if it is not drawn. */
  itemOf: number[];
  lines: Line[];
}

/**
 * Fold what splits a tensor for the blocks of a strip, or joins their results, into its line to the strip: nodes that
 * `mayFold`, with one line in and one out. A sum of gradients from several blocks stays.
 */
export function withoutSplits(
  { edges }: GraphModel,
  { nodes, nodeOf }: Visible,
  { items, itemOf, lines }: Items,
  mayFold: (node: number) => boolean,
): Items {
  const isStrip = (item: number) => items[item].run.length > 0;
  const isFolded = new Set<number>();
  const [into, out] = [new Map<number, Set<Line>>(), new Map<number, Set<Line>>()];
  const between = new Map<string, Set<Line>>();
  const none = () => new Set<Line>();
  const setsOf = (line: Line) => [
    valueAt(into, line.target, none),
    valueAt(out, line.source, none),
    valueAt(between, `${line.source} ${line.target}`, none),
  ];
  const put = (line: Line) => {
    for (const set of setsOf(line)) set.add(line);
  };
  const drop = (line: Line) => {
    for (const set of setsOf(line)) set.delete(line);
  };
  for (const line of lines) put(line);
  const ends = lines.flatMap(({ source, target }) =>
    isStrip(source) ? target : isStrip(target) ? source : [],
  );
  for (const item of new Set(ends)) {
    const { node, group } = nodes[items[item].v];
    if (isStrip(item) || group >= 0 || !mayFold(node)) continue;
    const [come, otherIn] = into.get(item) ?? [];
    const [leave, otherOut] = out.get(item) ?? [];
    if (!come || otherIn || !leave || otherOut || come.source === leave.target) continue;
    const last = come.edges.map((e) => edges[e]).filter(({ target }) => target === node);
    const outputs = new Set(last.map((edge) => edge.output_nr));
    const users = new Set(last.map((edge) => `${edge.output_nr} ${nodeOf[edge.source]}`));
    if (outputs.size < users.size) continue;
    const [first, ...more] = between.get(`${come.source} ${leave.target}`) ?? [];
    const whole = first ?? emptyLine(come.source, leave.target);
    put(whole);
    for (const line of more) extend(whole, line);
    for (const line of [...more, come, leave]) drop(line);
    extend(whole, { ...come, count: leave.count });
    whole.folded.push(node);
    extend(whole, { ...leave, count: 0 });
    isFolded.add(item);
  }
  let count = 0;
  const place = items.map((_, i) => (isFolded.has(i) ? -1 : count++));
  return {
    items: items.filter((_, i) => !isFolded.has(i)),
    itemOf: itemOf.map((item) => place[item] ?? -1),
    lines: [...out.values()]
      .flatMap((some) => [...some])
      .map((line) => ({ ...line, source: place[line.source], target: place[line.target] }))
      .sort((a, b) => a.edges[0] - b.edges[0]),
  };
}
