import { bestDirection } from "../arrange/first_view";
import { asDirection, type Direction } from "../layout/direction";
import { MOST_CARDS } from "../scene/card";
import { outputNames } from "../scene/node_words";
import { autogradSize, graphName, isAutograd, leafCount, shownGraph } from "../scene/shown_graph";
import { isOtherWidth, type Room } from "../scene/views";
import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import type { DirectionChoice, GraphModel } from "../wire";

/** A graph, and the versions of it that can be drawn. */
export class Drawable {
  /** Without constants and cuts: its autograd nodes, and the calls inside open ones. */
  readonly autograd: GraphModel;
  /** The numbers of autograd nodes and edges. */
  readonly size: { nodes: number; edges: number };
  private readonly whole: GraphModel;
  /** The best direction, and the width of the room for which it was found. */
  private best: { direction: Direction; width: number } | null = null;

  constructor(
    /** All of it. */
    readonly graph: GraphModel,
    private readonly torchNames: boolean,
  ) {
    this.autograd = shownGraph(graph, false, torchNames);
    this.size = autogradSize(graph);
    this.whole = shownGraph(graph, true, torchNames);
  }

  /** Whether this was made from the graph with these names. */
  isOf(graph: GraphModel, torchNames: boolean): boolean {
    return graph === this.graph && torchNames === this.torchNames;
  }

  /** The version with or without constants and cuts. */
  shown(constants: boolean): GraphModel {
    return constants ? this.whole : this.autograd;
  }

  /** Whether it is small enough for cards, as on a board. */
  get isBoard(): boolean {
    return !this.graph.static && this.autograd.nodes.length <= MOST_CARDS;
  }

  /** The direction of the drawing. */
  direction(asked: DirectionChoice, room: Room, measure: Measure): Direction {
    return asDirection(asked, () => {
      const { best } = this;
      if (!this.isBoard && best && !isOtherWidth(best.width, room.width)) return best.direction;
      const direction = bestDirection(this.whole, room, measure);
      this.best = { direction, width: room.width };
      return direction;
    });
  }

  /**
   * "f(x)", "12 nodes", "12 nodes, 13 edges"; with open compiled code "12 nodes and 3 calls", with different ranks "12
   * nodes and 4 on other ranks".
   */
  get words(): [names: string, nodes: string, size: string] {
    const { nodes, edges } = this.size;
    const count = counted(nodes, "node");
    const calls = this.autograd.nodes.filter((node) => !isAutograd(node)).length;
    const others = this.autograd.nodes.length - calls - nodes;
    const drawn = [
      count,
      ...(calls > 0 ? [counted(calls, "call")] : []),
      ...(others > 0 ? [`${others} on other ranks`] : []),
    ];
    return [outputNames(this.graph), drawn.join(" and "), `${count}, ${counted(edges, "edge")}`];
  }

  /** The picture's label for screen readers. */
  get label(): string {
    const [, , size] = this.words;
    return `${graphName(this.graph)} of ${size}, ${leafCount(this.graph)}. Arrow keys walk along edges, Enter selects, f fits, slash finds, Escape leaves.`;
  }
}
