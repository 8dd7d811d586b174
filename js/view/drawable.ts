import { bestDirection } from "../fold/first_scene";
import { asDirection, type Direction } from "../layout/direction";
import { MOST_CARDS } from "../scene/card";
import { outputNames } from "../scene/node_words";
import { graphName, leafCount, shownGraph } from "../scene/shown_graph";
import type { Room } from "../scene/views";
import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import type { DirectionChoice, GraphModel } from "../wire";

/** What can be drawn of a graph. */
export class Drawable {
  /** Its autograd nodes alone. */
  readonly autograd: GraphModel;
  private readonly whole: GraphModel;

  constructor(
    /** All of it. */
    readonly graph: GraphModel,
    private readonly torchNames: boolean,
  ) {
    this.autograd = shownGraph(graph, false, torchNames);
    this.whole = shownGraph(graph, true, torchNames);
  }

  /** Whether nothing else is made of a graph by these names. */
  isOf(graph: GraphModel, torchNames: boolean): boolean {
    return graph === this.graph && torchNames === this.torchNames;
  }

  /** What is drawn of it, with or without constants and cuts. */
  shown(constants: boolean): GraphModel {
    return constants ? this.whole : this.autograd;
  }

  /** Whether it is small enough for each operation to be a card, as on a board. */
  get isBoard(): boolean {
    return !this.graph.static && this.autograd.nodes.length <= MOST_CARDS;
  }

  /** Which way it is drawn, where this is asked for. */
  direction(asked: DirectionChoice, room: Room, measure: Measure): Direction {
    return asDirection(asked, () => bestDirection(this.whole, room, measure));
  }

  /** "f(x)", "12 nodes", "12 nodes, 13 edges". */
  get words(): [names: string, nodes: string, size: string] {
    const { nodes, edges } = this.autograd;
    const count = counted(nodes.length, "node");
    return [outputNames(this.graph), count, `${count}, ${counted(edges.length, "edge")}`];
  }

  /** What a screen reader says of the picture. */
  get label(): string {
    const [, , size] = this.words;
    return `${graphName(this.graph)} of ${size}, ${leafCount(this.graph)}. Arrow keys walk along edges, Enter selects, f fits, slash finds, Escape leaves.`;
  }
}
