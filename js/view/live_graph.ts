import type { Channel, Traits } from "../channel";
import type { Shell } from "../controls/shell";
import { listsBy } from "../maps";
import type { InputRoom } from "../scene/node_words";
import { boardNumber } from "../text/gradient";
import { oneLine } from "../text/shorten";
import type { GraphModel, NumberInputModel, UpdateModel, Values } from "../wire";

/** The most numbers per row of a tensor. */
const MOST_COLUMNS = 4;

type Asked = Pick<Channel, "get">;

/** The graph with its nodes' current numbers, and the changes since the last one. */
export class LiveGraph {
  private graph: GraphModel | null = null;
  private sent: GraphModel | null = null;
  private values: (Values | null)[] | null = null;
  /** The room in boxes for number inputs, and the same as a string. */
  private rooms: ReadonlyMap<number, InputRoom> = new Map();
  private roomed = "";
  private number = 0;

  constructor(private readonly channel: Asked) {
    this.number = this.update?.number ?? 0;
  }

  /** The last update; null before any. */
  get update(): UpdateModel | null {
    return this.channel.get("_update") ?? null;
  }

  /** Whether an update is waiting. */
  get isBehind(): boolean {
    return (this.update?.number ?? 0) !== this.number;
  }

  /** Whether the number inputs need the same room as before. */
  get isRoomed(): boolean {
    return this.graph === null || worded(this.wanted()) === this.roomed;
  }

  /**
   * Take the current graph. `was` has each node's id in the graph before: null when only numbers differ, undefined for
   * an unrelated node.
   */
  take(): { graph: GraphModel; was: readonly (number | null)[] | null | undefined } {
    const { update } = this;
    const sent = this.channel.get("model");
    const values = this.channel.get("_values") ?? null;
    const isNext = update !== null && update.number === this.number + 1;
    const isSame = sent === this.sent || (isNext && update.before === null);
    const isFirst = this.graph === null;
    this.number = update?.number ?? 0;
    const rooms = this.wanted();
    const roomed = worded(rooms);
    const isRoomed = roomed === this.roomed;
    if (!isRoomed) this.rooms = rooms;
    this.roomed = roomed;
    if (this.graph === null || sent !== this.sent || values !== this.values || !isRoomed)
      this.graph = withNumbers(sent, values, this.rooms, this.moves);
    this.sent = sent;
    this.values = values;
    if (isFirst) return { graph: this.graph, was: undefined };
    if (isSame) return { graph: this.graph, was: isRoomed ? null : sent.nodes.map(({ id }) => id) };
    return { graph: this.graph, was: isNext ? update.before : undefined };
  }

  /** Whether the reader sets numbers, and all others follow. */
  private get moves(): boolean {
    return (this.channel.get("_number_inputs") ?? []).length > 0;
  }

  /** None during a quiz, which asks for these numbers. */
  private wanted(): Map<number, InputRoom> {
    const { channel } = this;
    return channel.get("_quiz") ? new Map() : inputRooms(channel.get("_number_inputs") ?? []);
  }
}

/** The rows and columns of inputs in each leaf with several numbers. */
function inputRooms(numberInputs: readonly NumberInputModel[]): Map<number, InputRoom> {
  const several = [...listsBy(numberInputs, ({ node }) => node)].filter(
    ([, models]) => models.length > 1,
  );
  return new Map(several.map(([node, models]) => [node, inputRoom(models)]));
}

export function inputRoom(models: readonly NumberInputModel[]): InputRoom {
  const last = models.reduce((most, one) => Math.max(most, (one.at.at(-1) ?? 0) + 1), 1);
  const columns = Math.min(MOST_COLUMNS, last);
  return { columns, rows: Math.ceil(models.length / columns) };
}

function worded(rooms: ReadonlyMap<number, InputRoom>): string {
  return [...rooms].map(([node, { columns, rows }]) => `${node} ${columns} ${rows}`).join();
}

function withNumbers(
  graph: GraphModel,
  sent: (Values | null)[] | null,
  rooms: ReadonlyMap<number, InputRoom>,
  moves: boolean,
): GraphModel {
  const values = sent?.length === graph.nodes.length ? sent : null;
  if (values === null && rooms.size === 0 && !moves) return graph;
  const nodes = graph.nodes.map((node, id) => {
    const numberInputs = rooms.get(id);
    return {
      ...node,
      ...(values && { value: values[id] }),
      ...(numberInputs && { numberInputs }),
      ...(moves && { moves }),
    };
  });
  return { ...graph, nodes };
}

/** An update's words for the bar: names with their changes, then changes of the graph. */
export function updateWords({ changes, words }: UpdateModel): [name: string, words: string][] {
  return [
    ...changes.map(({ name, was, now }): [string, string] => [
      oneLine(name),
      `${boardNumber(was)} → ${boardNumber(now)}`,
    ]),
    ["", oneLine(words)],
  ];
}

export interface Following {
  /** Call a function when a trait changes, unless a whole update is being taken. */
  on(trait: keyof Traits, changed: () => void): void;
  /** Return a function that shows a part at once or, during an update, once at its end. */
  part(show: () => void): () => void;
  /** Take an update once all its traits have arrived. */
  take(): void;
}

/** Follow the traits: each change at once, but an update once it is complete. `updated` shows its changes. */
export function createFollowing(
  shell: Shell<Traits>,
  live: LiveGraph,
  updated: () => void,
): Following {
  /** Whether an update is about to be taken. */
  let isTaking = false;
  /** The parts to show after the update; null outside of one. */
  let parts: Set<() => void> | null = null;

  function take(): void {
    if (isTaking) return;
    isTaking = true;
    queueMicrotask(() => {
      isTaking = false;
      if (!shell.root.isConnected && !live.isBehind) return;
      parts = new Set();
      updated();
      const shown = parts;
      parts = null;
      for (const part of shown) part();
    });
  }

  return {
    on(trait, changed) {
      shell.on(trait, () => (live.isBehind ? take() : changed()));
    },
    part(show) {
      const part = shell.guarded(show);
      return () => (parts ? parts.add(part) : part());
    },
    take,
  };
}
