import { fittingFolding, openedBlock } from "../arrange/first_view";
import { foldedScene } from "../arrange/pipeline";
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
import { canFold, type GroupedGraph, groupedGraph, visibleCount } from "../fold/grouped_graph";
import { membersIn } from "../fold/tree";
import type { Direction } from "../layout/direction";
import { leastBy } from "../maps";
import { boxAround, boxOf } from "../scene/find";
import type { CardSize, Text } from "../scene/node_shape";
import { rowsOf, valueText } from "../scene/node_words";
import type { Scene, SceneNode } from "../scene/scene";
import type { Hold, Size } from "../scene/views";
import type { Measure, Style } from "../text/measure";
import type { GraphModel, NodeModel } from "../wire";
import type { Doing, GraphSource } from "../worker/messages";
import type { SceneMaker } from "../worker/scene_maker";
import type { Drawing } from "./drawing";

/** The largest picture that is made without a worker, in nodes. */
export const MOST_AT_ONCE = 1500;
/** Beyond this many nodes, even folding takes time. */
const LARGE_GRAPH = 15_000;
/** Time to paint a progress message, ms. */
const PAINTED_MS = 50;

/** A pending picture. */
export interface Work {
  /** Its estimated number of nodes. */
  nodes: number;
  doing: Doing;
  /** Whether it blocks the page. */
  blocks: boolean;
}

interface FoldEvents {
  /** The folding or its picture changed. */
  changed(): void;
  shown(scene: Scene | null): void;
  /** A slow picture is being made; null when it is done or cancelled. */
  working(work: Work | null): void;
  gaveUp(kept: Pick<Shown, "direction" | "source"> | null): void;
  failed(error: unknown): void;
}

interface Shown {
  grouped: GroupedGraph;
  origin: GraphModel;
  source: GraphSource;
  folding: Folding;
  direction: Direction;
  room: Size;
}

/** Per node, its id in the graph before. */
type Was = readonly (number | null)[];
/** How one picture follows another. */
interface Change {
  /** Finds the place to hold, once the next picture exists; without one it is a first view. */
  hold?: HoldIn;
  /** Called with the new picture. */
  done?: (scene: Scene) => void;
  /** Given if the graph was updated. */
  was?: Was;
}

/** Draw a graph as folded, and fold it on request; a worker makes large pictures. */
export class FoldController {
  /** The requested and the drawn picture; they differ while one is pending. */
  private wanted: Shown | null = null;
  private drawn: Shown | null = null;
  private work: Work | null = null;
  /** Per node of the requested graph, its id in the drawn one; null if no update is pending. */
  private was: Was | null = null;
  /** The node to move to in the next picture. */
  private goal: { node: number; centre: boolean } | null = null;
  private timer = 0;
  /** The initial folding. */
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

  /** Whether the folding is the initial one. */
  get isUntouched(): boolean {
    const { folding, first } = this;
    return folding !== null && first !== null && isSameFolding(folding, first);
  }

  forget(): void {
    this.wanted = null;
  }

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
      this.goal = null;
      this.drawn = null;
      this.was = null;
    }
    const start = () => {
      const grouped = isSame ? wanted.grouped : groupedGraph(graph);
      const { goal } = this;
      const { measure } = this;
      const first = isKnown ? wanted.folding : fittingFolding(grouped, direction, measure, room);
      if (!isKnown) this.first = first;
      const folding = goal ? revealNode(grouped.tree, first, goal.node) : first;
      this.draw({ grouped, origin, source, folding, direction, room });
    };
    window.clearTimeout(this.timer);
    const nodes = graph.nodes.length;
    if (nodes > MOST_AT_ONCE) this.maker.warm();
    if (isSame || nodes <= LARGE_GRAPH) {
      start();
      return;
    }
    // Preparing the graph has kept the page busy enough.
    this.working({ nodes, doing: "layout", blocks: false });
    this.timer = window.setTimeout(start);
  }

  /** Draw the updated graph as folded. `was` is null if only numbers changed: then nothing is laid out. */
  follow(graph: GraphModel, origin: GraphModel, source: GraphSource, was: Was | null): void {
    const { wanted, drawn, drawing } = this;
    const before = drawing.scene;
    if (!wanted || !drawn || !before || wanted.direction !== drawn.direction) {
      this.forget();
      this.show(graph, wanted?.direction ?? "left", origin, source, wanted?.room);
      return;
    }
    if (was === null) {
      const grouped = { ...wanted.grouped, graph };
      const isDrawn = drawn.grouped === wanted.grouped;
      this.wanted = { ...wanted, grouped, origin, source };
      if (wanted === drawn) this.drawn = this.wanted;
      else if (isDrawn) this.drawn = { ...drawn, grouped, origin, source };
      if (isDrawn) drawing.renew(graph, renewed(before, graph, this.measure));
      return;
    }
    const grouped = groupedGraph(graph);
    const held = renumbered(wanted.folding, was);
    const folding = openInside(grouped, wanted.grouped.tree, held);
    const pending = this.was;
    const since = pending ? was.map((id) => (id === null ? null : pending[id])) : was;
    const hold: HoldIn = (after) => holdMost(before, after, since);
    this.draw({ ...wanted, grouped, origin, source, folding }, { hold, was: since });
  }

  /** Whether anything can fold: modules, or much plumbing. */
  get canFold(): boolean {
    return this.wanted !== null && canFold(this.wanted.grouped);
  }

  /** Open a closed box, in sight or filling the stage; a block of a strip opens instead of another block. */
  open(node: SceneNode, how: "sight" | "into" = "sight"): void {
    const { wanted } = this;
    const { group } = node;
    if (!wanted || !group) return;
    const { grouped, folding, direction, room } = wanted;
    const { measure } = this;
    const { viewport } = this.drawing;
    const [path] = group.paths;
    const block = openedBlock(grouped, folding, path, { direction, measure, room });
    this.fold(block ?? openGroup(grouped.tree, folding, path), {
      hold: holdCorner(node, path),
      done: (after) => {
        const box = boxAround(after, path, group.members);
        if (box) viewport.lookAt(box, how);
      },
    });
  }

  /** Close an open group; its box comes to where `at` is, a place in the scene. */
  close(path: string, at: [number, number]): void {
    const { folding } = this;
    if (folding) this.fold(closeGroup(folding, path), { hold: holdBox(path, at) });
  }

  /** Close an open group, then move to its members with `then`. */
  leave(path: string, then: (scene: Scene, members: readonly number[]) => void): void {
    const { wanted } = this;
    if (!wanted) return;
    const { grouped, folding } = wanted;
    const members = membersIn(grouped.tree, path);
    this.fold(closeGroup(folding, path), {
      hold: (after) => holdMiddle(this.drawing, after),
      done: (after) => then(after, members),
    });
  }

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

  /** Move to a node and open the groups around it, permanently or until the next peek. */
  reveal(node: number, centre = false, how: "stay" | "peek" = "stay"): void {
    const { grouped, drawing } = this;
    if (!grouped) this.goal = this.work && { node, centre };
    if (!grouped || node >= grouped.graph.nodes.length) return;
    const drawn = drawing.scene?.drawn[node] ?? [];
    const closed = drawing.scene?.nodes[drawn[0]];
    const isHidden = !closed || closed.group !== undefined;
    // Selecting a peeked node keeps its groups open.
    if (how === "stay") this.keep();
    if (isHidden && this.folding)
      this.openTo(closed ?? null, revealNode(grouped.tree, this.folding, node, how));
    this.goal = { node, centre };
    if (!this.work || !isHidden) drawing.viewport.reveal(node, centre);
    if (!this.work) this.goal = null;
  }

  /**
   * Show what a closed box hides: its corner stays, and as much as possible of it comes into sight. A picture that was
   * seen whole, and fits at this scale, stays whole.
   */
  private openTo(closed: SceneNode | null, folding: Folding): void {
    if (!closed?.group) {
      this.fold(folding, { hold: (after) => holdMiddle(this.drawing, after) });
      return;
    }
    const { viewport } = this.drawing;
    const { paths, members } = closed.group;
    const wasWhole = viewport.isWhole;
    this.fold(folding, {
      hold: holdCorner(closed, paths[0]),
      done: (after) => {
        const { width, height } = after;
        const box =
          wasWhole && viewport.hasRoomFor(after)
            ? { left: 0, top: 0, right: width, bottom: height }
            : boxAround(after, paths[0], members);
        if (box) viewport.whenQuiet(() => viewport.lookAt(box, "sight"));
      },
    });
  }

  keep(): void {
    const { wanted, drawn } = this;
    if (!wanted) return;
    this.wanted = { ...wanted, folding: keepPeek(wanted.folding) };
    if (drawn === wanted) this.drawn = this.wanted;
  }

  /** Change the folding; the scale and the middle of the view stay. With `fits`, a picture seen whole stays whole. */
  change(transition: (folding: Folding) => Folding, fits = false): void {
    if (!this.folding) return;
    const { drawing } = this;
    const hold: HoldIn = (after) => holdMiddle(drawing, after);
    this.fold(transition(this.folding), fits && drawing.viewport.isWhole ? {} : { hold });
  }

  /** Note what is open and seen; returns the function that goes back, unless another graph is shown by then. */
  bookmark(): () => void {
    const { grouped, folding, drawing } = this;
    const { aim, isUntouched } = drawing.viewport;
    const look = () => drawing.viewport.look(aim, isUntouched);
    return () => {
      if (!folding || !this.folding || this.grouped !== grouped) return;
      if (isSameFolding(folding, this.folding)) look();
      else this.fold(folding, { done: look });
    };
  }

  cancel(): boolean {
    if (!this.work || this.work.blocks) return false;
    window.clearTimeout(this.timer);
    this.maker.cancel();
    this.goal = null;
    this.was = null;
    this.wanted = this.drawn ?? this.wanted;
    this.idle();
    this.events.gaveUp(this.drawn);
    this.events.changed();
    return true;
  }

  again(): void {
    if (this.wanted) this.draw(this.wanted);
  }

  destroy(): void {
    window.clearTimeout(this.timer);
    this.maker.end();
  }

  private fold(folding: Folding, change: Change): void {
    if (this.wanted) this.draw({ ...this.wanted, folding }, change);
  }

  /** Draw a small picture at once; a large one when it is made, unless another was requested by then. */
  private draw(next: Shown, change: Change = {}): void {
    const { grouped, folding, direction, room } = next;
    window.clearTimeout(this.timer);
    this.wanted = next;
    this.was = change.was ?? this.was;
    const nodes = visibleCount(grouped, folding);
    if (nodes <= MOST_AT_ONCE && grouped.graph.nodes.length <= LARGE_GRAPH) {
      this.maker.forget();
      this.drawHere(next, change);
      return;
    }
    this.working({ nodes, doing: "layout", blocks: false });
    this.events.changed();
    const order = { folding, direction, room };
    this.maker.make(next.source, order, {
      doing: (doing) => this.working({ nodes, doing, blocks: false }),
      made: (scene) => {
        const now = this.wanted ?? next;
        const { graph } = now.grouped;
        const isSame = graph === grouped.graph;
        this.place(now, isSame ? scene : renewed(scene, graph, this.measure), change);
      },
      failed: (error) => this.fail(error),
      unavailable: () => {
        this.working({ nodes, doing: "layout", blocks: true });
        this.timer = window.setTimeout(
          () => this.drawHere(this.wanted ?? next, change),
          PAINTED_MS,
        );
      },
    });
  }

  private drawHere(next: Shown, change: Change): void {
    const { grouped, folding, direction, room } = next;
    const { measure } = this;
    try {
      const scene = foldedScene(grouped, folding, direction, measure, { room });
      this.place(next, scene, change);
    } catch (error) {
      this.fail(error);
    }
  }

  private place(next: Shown, scene: Scene, { hold = () => null, done }: Change): void {
    const { drawing, drawn, goal, was } = this;
    const isOther = drawn?.grouped !== next.grouped || drawn.direction !== next.direction;
    const isFirst = isOther && !was;
    // Before drawing: a later resize would draw it twice.
    if (isFirst) this.events.shown(scene);
    if (was) drawing.become(next.grouped.graph, scene, hold(scene), was);
    else if (isFirst) drawing.show(next.grouped.graph, scene);
    else drawing.replace(scene, hold(scene));
    this.wanted = next;
    this.drawn = next;
    this.was = null;
    this.goal = null;
    this.idle();
    this.events.changed();
    done?.(scene);
    if (goal) drawing.viewport.reveal(goal.node, goal.centre);
  }

  private fail(error: unknown): void {
    this.wanted = this.drawn ?? this.wanted;
    this.was = null;
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

/** The place to hold; null for none. */
type HoldIn = (after: Scene) => Hold | null;

/** Hold the upper left corner of a box that opens, where the sign that closes it replaces the sign that opens it. */
function holdCorner(closed: SceneNode, path: string): HoldIn {
  const { left, top } = boxOf(closed);
  return (after) => {
    const frame = after.frames.find((other) => other.path === path);
    const node = after.nodes[after.drawn[closed.id][0] ?? 0];
    const now = frame ?? (node && boxOf(node));
    return now ? { from: [left, top], to: [now.left, now.top] } : null;
  };
}

/** Bring a closed group to a place of the scene before. */
function holdBox(path: string, at: [number, number]): HoldIn {
  return (after) => {
    const box = after.nodes.find(({ group }) => group?.paths.includes(path));
    return box ? { from: at, to: [box.x, box.y] } : null;
  };
}

/** Hold the node nearest to the middle of the view that is in both pictures. */
function holdMiddle(drawing: Drawing, after: Scene): Hold | null {
  const { scene, viewport } = drawing;
  if (!scene) return null;
  const { view } = viewport;
  const { width, height } = viewport.stage;
  const [x, y] = [(width / 2 - view.x) / view.k, (height / 2 - view.y) / view.k];
  const kept = scene.nodes.filter(({ id }) => after.drawn[id].length > 0);
  const node = leastBy(kept, (one) => Math.hypot(one.x - x, one.y - y));
  if (!node) return null;
  const next = after.nodes[after.drawn[node.id][0]];
  return { from: [node.x, node.y], to: [next.x, next.y] };
}

/** Hold as many nodes as possible: the most common movement. */
function holdMost(before: Scene, after: Scene, was: readonly (number | null)[]): Hold | null {
  const times = new Map<string, number>();
  let best: Hold | null = null;
  let most = 0;
  for (const { id, x, y, group } of after.nodes) {
    const old = before.nodes[before.drawn[was[id] ?? -1]?.[0] ?? -1];
    if (!old || group || old.group) continue;
    const moved = `${Math.round(x - old.x)} ${Math.round(y - old.y)}`;
    const count = (times.get(moved) ?? 0) + 1;
    times.set(moved, count);
    if (count <= most) continue;
    most = count;
    best = { from: [old.x, old.y], to: [x, y] };
  }
  return best;
}

/** The styles of a number, best first; smaller ones fit more. */
const STYLES: Record<CardSize, readonly Style[]> = {
  full: ["number", "digits", "cell"],
  near: ["digits", "cell"],
};

/** Shown instead of a hidden number. */
const HIDDEN = "?";

/** The same picture with its nodes' current numbers; boxes and lines stay. */
export function renewed(scene: Scene, graph: GraphModel, measure: Measure): Scene {
  let isOther = false;
  const nodes = scene.nodes.map((node) => {
    const { shape, id, group } = node;
    const [value] = node.fine?.filter(({ room }) => room !== undefined) ?? [];
    const before = value ? [value] : shape.texts.filter(({ room }) => room !== undefined);
    if (before.length === 0 || group) return node;
    const numbers = numbersIn(graph.nodes[id], before.length);
    if (before.every(({ text }, i) => text === numbers[i])) return node;
    isOther = true;
    if (value) {
      const fine = node.fine?.map((text) =>
        text === value ? { ...text, text: numbers[0] } : text,
      );
      return { ...node, ...(fine && { fine }) };
    }
    const size = before.length > 1 ? "near" : (shape.card?.size ?? "near");
    const texts = shape.texts.map((text) => {
      const line = before.indexOf(text);
      return line < 0 ? text : written(text, numbers[line], size, measure);
    });
    return { ...node, shape: { ...shape, texts } };
  });
  return isOther ? { ...scene, nodes } : scene;
}

/** The number of a node, or the rows of a matrix. */
function numbersIn(node: NodeModel, lines: number): readonly string[] {
  const { value } = node;
  if (value === null) return Array.from({ length: lines }, (_, i) => (i === 0 ? HIDDEN : ""));
  const rows = lines > 1 ? rowsOf(node) : null;
  return rows?.length === lines ? rows : [valueText(node, value)];
}

function written(before: Text, text = "", size: CardSize, measure: Measure): Text {
  const { room = 0 } = before;
  const styles = STYLES[size];
  const style = styles.find((one) => measure(text, one) <= room) ?? styles[styles.length - 1];
  return { ...before, text, style };
}
