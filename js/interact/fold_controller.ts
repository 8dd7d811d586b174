import {
  closeGroup,
  type Folding,
  isSameFolding,
  keepPeek,
  openGroup,
  openInside,
  renumbered,
  revealNode,
  unfoldPlumbing,
} from "../fold/folding";
import { canFold, type GroupedGraph, groupedGraph } from "../fold/grouped_graph";
import { membersIn } from "../fold/tree";
import { visibleCount } from "../fold/visible_count";
import type { Direction } from "../layout/direction";
import type { ContentCache } from "../layout/types";
import { foldedScene } from "../pipeline";
import { fittingFolding, openedBlock } from "../pipeline/first_view";
import { boxAround } from "../scene/find";
import { renewed } from "../scene/renewed";
import type { Scene, SceneNode } from "../scene/scene";
import type { Size } from "../scene/views";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import type { Doing, GraphSource } from "../worker/messages";
import type { SceneMaker } from "../worker/scene_maker";
import type { Drawing } from "./drawing";
import { type HoldIn, holdBar, holdBox, holdMiddle, holdMost, topOf } from "./hold";

/** Pictures of at most so many nodes are made at once, without a worker. */
export const MOST_AT_ONCE = 1500;
/** Of a graph of more nodes than this, even folding takes a moment. */
const LARGE_GRAPH = 15_000;
/** Until the page has painted that it is working, ms. */
const PAINTED_MS = 50;

/** A picture that is not there yet. */
export interface Work {
  /** About how many nodes it will show. */
  nodes: number;
  doing: Doing;
  /** Whether the page itself does it, and answers to nothing until it is done. */
  blocks: boolean;
}

interface FoldEvents {
  /** What is folded, or what is drawn of it, has changed. */
  changed(): void;
  /** A first view is about to be drawn, or was: of a graph, or of a graph in another direction. */
  shown(scene: Scene | null): void;
  /** A picture that may take long is being made; null once it is there or nobody waits for it any more. */
  working(work: Work | null): void;
  /** A picture was given up. The one that is drawn stays; null if there is none. */
  gaveUp(kept: Pick<Shown, "direction" | "source"> | null): void;
  failed(error: unknown): void;
}

interface Shown {
  grouped: GroupedGraph;
  origin: GraphModel;
  source: GraphSource;
  folding: Folding;
  direction: Direction;
  /** The window that it was made for. */
  room: Size;
}

/** Per node of a graph, which it was in the graph before. */
type Was = readonly (number | null)[];
/** What is done when a picture is there. */
type Then = (scene: Scene) => void;

/** Draws a graph as it is folded, and folds it further as the reader asks; large pictures are made in a worker. */
export class FoldController {
  /** What the reader asked for, and what of that is drawn: the same unless a picture is being made. */
  private wanted: Shown | null = null;
  private drawn: Shown | null = null;
  private work: Work | null = null;
  /** The node to move to once the picture that shows it is there. */
  private goal: { node: number; centre: boolean } | null = null;
  private cache: ContentCache = new Map();
  private timer = 0;
  /** How the graph was folded before anybody touched it. */
  private first: Folding | null = null;

  constructor(
    private readonly drawing: Drawing,
    private readonly measure: Measure,
    private readonly maker: SceneMaker,
    private readonly events: FoldEvents,
  ) {}

  get folding(): Folding | null {
    return this.wanted?.folding ?? null;
  }

  get grouped(): GroupedGraph | null {
    return this.wanted?.grouped ?? null;
  }

  get drawnGraph(): GroupedGraph | null {
    return this.drawn?.grouped ?? null;
  }

  /** Whether it is folded as at first: nothing was opened or closed, or all of it is back as it was. */
  get isUntouched(): boolean {
    const { folding, first } = this;
    return folding !== null && first !== null && isSameFolding(folding, first);
  }

  forget(): void {
    this.wanted = null;
  }

  /**
   * Draws what is shown of a graph: another graph in its first folding, the same as it is folded. `source` is what a
   * worker can make the same of.
   */
  show(
    graph: GraphModel,
    direction: Direction,
    origin = graph,
    source: GraphSource = { given: graph, constants: true, torchNames: false },
    room = this.drawing.viewport.stage,
  ): void {
    const { wanted, drawn } = this;
    const isSame = wanted?.grouped.graph === graph;
    if (isSame && wanted === drawn && wanted.direction === direction) return;
    const isKnown = wanted?.origin === origin;
    if (!isKnown) {
      this.cache = new Map();
      this.goal = null;
      this.drawn = null;
    }
    const start = () => {
      const grouped = isSame ? wanted.grouped : groupedGraph(graph);
      const { goal } = this;
      const { cache, measure } = this;
      const first = isKnown
        ? wanted.folding
        : fittingFolding(grouped, direction, measure, room, cache);
      if (!isKnown) this.first = first;
      const folding = goal ? revealNode(grouped.tree, first, goal.node) : first;
      this.draw({ grouped, origin, source, folding, direction, room }, () => null);
    };
    window.clearTimeout(this.timer);
    const nodes = graph.nodes.length;
    if (nodes > MOST_AT_ONCE) this.maker.warm();
    if (isSame || nodes <= LARGE_GRAPH) {
      start();
      return;
    }
    // The page has had enough to do with the graph itself.
    this.working({ nodes, doing: "layout", blocks: false });
    this.timer = window.setTimeout(start);
  }

  /**
   * Draws what became of the graph, in the same direction and folded as it is; `was` is null where only its numbers
   * are others: then nothing is laid out.
   */
  follow(graph: GraphModel, origin: GraphModel, source: GraphSource, was: Was | null): void {
    const { wanted, drawn, drawing } = this;
    if (!wanted || !drawing.scene || this.work || wanted !== drawn) {
      this.forget();
      this.show(graph, wanted?.direction ?? "left", origin, source, wanted?.room);
      return;
    }
    if (was === null) {
      const grouped = { ...wanted.grouped, graph };
      this.wanted = this.drawn = { ...wanted, grouped, origin, source };
      drawing.renew(graph, renewed(drawing.scene, graph, this.measure));
      return;
    }
    this.cache = new Map();
    const grouped = groupedGraph(graph);
    const held = renumbered(wanted.folding, was);
    const folding = openInside(grouped, wanted.grouped.tree, held);
    const next = { ...wanted, grouped, origin, source, folding };
    const before = drawing.scene;
    this.draw(next, (after) => holdMost(before, after, was), undefined, was);
  }

  /** Whether there is anything to fold: modules, or so many nodes that plumbing is in the way. */
  get canFold(): boolean {
    return this.wanted !== null && canFold(this.wanted.grouped);
  }

  /** Opens a closed box, which stays in sight or fills the stage; a block of a strip in a lens, in place of another one. */
  open({ id, group, x, y, shape }: SceneNode, how: "sight" | "into" = "sight"): void {
    const { wanted } = this;
    if (!wanted || !group) return;
    const { grouped, folding } = wanted;
    const [path] = group.paths;
    if (group.isOpen) this.close(path, [x, y]);
    if (group.isOpen || this.openBlock(path)) return;
    this.fold(
      openGroup(grouped.tree, folding, path),
      (after) => ({ from: [x, y - shape.height / 2], to: topOf(after, path, id) }),
      (after) => {
        const box = boxAround(after, path, group.members);
        if (box) this.drawing.viewport.lookAt(box, how);
      },
    );
  }

  /** Open a block of a strip: its bar does not move, or the view does not change. False if there is no such strip. */
  openBlock(path: string): boolean {
    const { wanted, drawing, measure } = this;
    const hold = holdBar(drawing, path);
    if (!wanted || !hold) return false;
    const { grouped, folding, direction, room } = wanted;
    const next = openedBlock(grouped, folding, path, direction, measure, room, this.cache);
    if (!next) return false;
    this.fold(next, hold, (after) => {
      const lens = boxAround(after, path, []);
      if (lens) drawing.viewport.lookAt(lens, "sight");
    });
    return true;
  }

  /** Closes an open group; the box comes to where `at` is now, a place in the scene. A bar stays where it is. */
  close(path: string, at: [number, number]): void {
    const { folding, drawing } = this;
    if (folding) this.fold(closeGroup(folding, path), holdBar(drawing, path) ?? holdBox(path, at));
  }

  /** Close an open group, then move to its members with `then`. */
  leave(path: string, then: (scene: Scene, members: readonly number[]) => void): void {
    const { wanted } = this;
    if (!wanted) return;
    const { grouped, folding } = wanted;
    const members = membersIn(grouped.tree, path);
    this.fold(
      closeGroup(folding, path),
      (after) => holdMiddle(this.drawing, after),
      (after) => then(after, members),
    );
  }

  /** Closes the innermost open group around a drawn node; false if there is none. */
  closeAround({ id, x, y, group }: SceneNode): boolean {
    const { grouped } = this;
    if (!grouped) return false;
    const { tree } = grouped;
    const g = group ? tree.parent[tree.byPath.get(group.paths[0]) ?? 0] : tree.groupOf[id];
    if (!(g > 0)) return false;
    this.close(tree.path[g], [x, y]);
    return true;
  }

  unfold(nodes: readonly number[]): void {
    this.change((folding) => unfoldPlumbing(folding, nodes));
  }

  /** Moves to a node, and opens what hides it: for good or until the next one is peeked at. */
  reveal(node: number, centre = false, how: "stay" | "peek" = "stay"): void {
    const { grouped, drawing } = this;
    if (!grouped) this.goal = this.work && { node, centre };
    if (!grouped || node >= grouped.graph.nodes.length) return;
    const drawn = drawing.scene?.drawn[node] ?? [];
    const isHidden = drawn.length === 0 || drawing.scene?.nodes[drawn[0]].group !== undefined;
    // A node that is selected while it is only peeked at stays.
    if (how === "stay") this.keep();
    // Who has moved nothing yet sees all of what is opened now.
    const isFirst = how === "stay" && !centre && drawing.viewport.isUntouched;
    if (isHidden)
      this.change(
        (folding) => revealNode(grouped.tree, folding, node, how),
        isFirst ? "first" : "hold",
      );
    this.goal = { node, centre };
    if (!this.work || !isHidden) drawing.viewport.reveal(node, centre);
    if (!this.work) this.goal = null;
  }

  keep(): void {
    const { wanted, drawn } = this;
    if (!wanted) return;
    this.wanted = { ...wanted, folding: keepPeek(wanted.folding) };
    if (drawn === wanted) this.drawn = this.wanted;
  }

  /** Folds in another way; what is in the middle of the view stays there, or a first view is shown. */
  change(transition: (folding: Folding) => Folding, view: "hold" | "first" = "hold"): void {
    if (!this.folding) return;
    const hold: HoldIn = view === "hold" ? (after) => holdMiddle(this.drawing, after) : () => null;
    this.fold(transition(this.folding), hold);
  }

  /** Gives up the picture that is being made: what is drawn stays, folded as it was. False if there is none. */
  cancel(): boolean {
    if (!this.work || this.work.blocks) return false;
    window.clearTimeout(this.timer);
    this.maker.cancel();
    this.goal = null;
    this.wanted = this.drawn ?? this.wanted;
    this.idle();
    this.events.gaveUp(this.drawn);
    this.events.changed();
    return true;
  }

  again(): void {
    if (this.wanted) this.draw(this.wanted, () => null);
  }

  destroy(): void {
    window.clearTimeout(this.timer);
    this.maker.end();
  }

  private fold(folding: Folding, hold: HoldIn, then?: Then): void {
    if (this.wanted) this.draw({ ...this.wanted, folding }, hold, then);
  }

  /** Draws at once what is small; else when it is made, unless something else was asked for by then. */
  private draw(next: Shown, hold: HoldIn, then?: Then, was: Was | null = null): void {
    const { grouped, folding, direction, room } = next;
    window.clearTimeout(this.timer);
    this.wanted = next;
    const nodes = visibleCount(grouped, folding);
    if (nodes <= MOST_AT_ONCE && grouped.graph.nodes.length <= LARGE_GRAPH) {
      this.maker.forget();
      this.drawHere(next, hold, then, was);
      return;
    }
    this.working({ nodes, doing: "layout", blocks: false });
    this.events.changed();
    const order = { folding, direction, room };
    this.maker.make(next.source, order, {
      doing: (doing) => this.working({ nodes, doing, blocks: false }),
      made: (scene) => this.place(this.wanted ?? next, scene, hold, then),
      failed: (error) => this.fail(error),
      unavailable: () => {
        this.working({ nodes, doing: "layout", blocks: true });
        this.timer = window.setTimeout(() => this.drawHere(next, hold, then), PAINTED_MS);
      },
    });
  }

  private drawHere(next: Shown, hold: HoldIn, then?: Then, was: Was | null = null): void {
    const { grouped, folding, direction, room } = next;
    const { cache, measure } = this;
    try {
      const scene = foldedScene(grouped, folding, direction, measure, { cache, room });
      this.place(next, scene, hold, then, was);
    } catch (error) {
      this.fail(error);
    }
  }

  private place(
    next: Shown,
    scene: Scene,
    hold: HoldIn,
    then?: Then,
    was: Was | null = null,
  ): void {
    const { drawing, drawn, goal } = this;
    const isOther = drawn?.grouped !== next.grouped || drawn.direction !== next.direction;
    const isFirst = isOther && was === null;
    // Before it is drawn: another size would have it drawn twice.
    if (isFirst) this.events.shown(scene);
    if (was !== null) drawing.become(next.grouped.graph, scene, hold(scene), was);
    else if (isFirst) drawing.show(next.grouped.graph, scene);
    else drawing.replace(scene, hold(scene));
    this.wanted = next;
    this.drawn = next;
    this.goal = null;
    this.idle();
    this.events.changed();
    then?.(scene);
    if (goal) drawing.viewport.reveal(goal.node, goal.centre);
  }

  private fail(error: unknown): void {
    this.wanted = this.drawn ?? this.wanted;
    this.goal = null;
    this.idle();
    this.events.failed(error);
    this.events.changed();
  }

  private working(work: Work): void {
    this.work = work;
    this.events.working(work);
  }

  private idle(): void {
    this.work = null;
    this.events.working(null);
  }
}
