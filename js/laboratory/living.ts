import type { Channel } from "../channel";
import { boardNumber } from "../text/gradient";
import { oneLine } from "../text/shorten";
import type { GraphModel, UpdateModel, Values } from "../wire";

type Asked = Pick<Channel, "get">;

/** The graph with the numbers that its nodes hold now, and what became of the one before it. */
export class Living {
  private graph: GraphModel | null = null;
  private sent: GraphModel | null = null;
  private values: (Values | null)[] | null = null;
  private number = 0;

  constructor(private readonly channel: Asked) {
    this.number = this.update?.number ?? 0;
  }

  /** The last update; null before any. */
  get update(): UpdateModel | null {
    return this.channel.get("_update") ?? null;
  }

  /** Whether there is an update that has not been taken. */
  get isBehind(): boolean {
    return (this.update?.number ?? 0) !== this.number;
  }

  /**
   * The graph as it is now, and how it came of the one that was taken before: per node which it was, null where only
   * numbers are others, undefined of one that is not known to come of it.
   */
  take(): { graph: GraphModel; was: readonly (number | null)[] | null | undefined } {
    const { update } = this;
    const sent = this.channel.get("graph");
    const values = this.channel.get("_values") ?? null;
    const isNext = update !== null && update.number === this.number + 1;
    const isSame = sent === this.sent || (isNext && update.before === null);
    const isFirst = this.graph === null;
    this.number = update?.number ?? 0;
    if (this.graph === null || sent !== this.sent || values !== this.values)
      this.graph = withValues(sent, values);
    this.sent = sent;
    this.values = values;
    if (isFirst) return { graph: this.graph, was: undefined };
    return { graph: this.graph, was: isSame ? null : isNext ? update.before : undefined };
  }
}

function withValues(graph: GraphModel, values: (Values | null)[] | null): GraphModel {
  if (values === null || values.length !== graph.nodes.length) return graph;
  return { ...graph, nodes: graph.nodes.map((node, id) => ({ ...node, value: values[id] })) };
}

/** What the bar says of an update: names with what became of their numbers, and what changed of the graph. */
export function updateWords({ changes, words }: UpdateModel): [name: string, words: string][] {
  return [
    ...changes.map(({ name, was, now }): [string, string] => [
      oneLine(name),
      `${boardNumber(was)} → ${boardNumber(now)}`,
    ]),
    ["", oneLine(words)],
  ];
}
