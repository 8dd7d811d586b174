import type { Direction } from "../drawing/direction";
import type { Drawing } from "../drawing/drawing";
import type { Scene, SceneNode } from "../drawing/scene";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import type { ContentCache } from "./content";
import { canFold, foldedScene } from "./folded_scene";
import {
  closeGroup,
  type Folding,
  firstFolding,
  keepPeek,
  openGroup,
  revealNode,
  unfoldPlumbing,
  unfoldRepeat,
} from "./folding";
import { type GroupedGraph, groupedGraph } from "./grouped_picture";
import { type Hold, holdMiddle, topOf } from "./hold";

/** Draws a graph as it is folded, and folds it further as the reader asks. */
export class Folder {
  folding: Folding | null = null;
  grouped: GroupedGraph | null = null;
  private direction: Direction = "down";
  private origin: GraphModel | null = null;
  private cache: ContentCache = new Map();
  /** Once a picture was wrapped it stays so: opening a box must not throw everything into one line. */
  private wraps = false;

  /** `changed` is called after each change of what is folded. */
  constructor(
    private readonly drawing: Drawing,
    private readonly measure: Measure,
    private readonly changed: () => void,
  ) {}

  /** Draws what is shown of a graph: another graph in its first folding, the same as it is folded. */
  show(graph: GraphModel, direction: Direction, origin = graph): void {
    this.direction = direction;
    if (this.grouped?.graph !== graph) this.grouped = groupedGraph(graph);
    if (this.origin !== origin) {
      this.origin = origin;
      this.folding = firstFolding(this.grouped.tree);
      this.cache = new Map();
      this.wraps = false;
    }
    this.drawing.show(graph, direction, this.scene());
    this.changed();
  }

  /** Whether there is anything to fold: modules, or so many nodes that plumbing is in the way. */
  get canFold(): boolean {
    return this.grouped !== null && canFold(this.grouped);
  }

  /** Opens a closed box; of a repeat, shows its blocks one by one. */
  open({ id, group, x, y, shape }: SceneNode): void {
    const { grouped, folding } = this;
    if (!grouped || !folding || !group) return;
    const [path] = group.paths;
    const next =
      group.paths.length > 1
        ? unfoldRepeat(folding, group.paths)
        : openGroup(grouped.tree, folding, path);
    this.apply(next, (after) => ({ from: [x, y - shape.height / 2], to: topOf(after, path, id) }));
  }

  /** Closes an open group; the box comes to where `at` is now, a place in the scene. */
  close(path: string, at: [number, number]): void {
    const { grouped, folding } = this;
    if (!grouped || !folding) return;
    this.apply(closeGroup(folding, path), (after) => {
      const box = after.nodes.find(({ group }) => group?.paths.includes(path));
      return box ? { from: at, to: [box.x, box.y] } : null;
    });
  }

  /** Closes the innermost open group around a drawn node; false if there is none. */
  closeAround({ id, x, y, group }: SceneNode): boolean {
    const { grouped } = this;
    if (!grouped) return false;
    const { tree } = grouped;
    const g = group ? tree.parent[tree.byPath.get(group.paths[0]) ?? 0] : tree.groupOf[id];
    if (g <= 0) return false;
    this.close(tree.path[g], [x, y]);
    return true;
  }

  /** Shows the plumbing that is folded into an edge. */
  unfold(nodes: readonly number[]): void {
    if (this.folding) this.change((folding) => unfoldPlumbing(folding, nodes));
  }

  /** Opens what hides a node, for good or until the next one is peeked at. */
  reveal(node: number, how: "stay" | "peek" = "stay"): void {
    const { grouped, drawing } = this;
    if (!grouped || node >= grouped.graph.nodes.length) return;
    const drawn = drawing.scene?.drawn[node] ?? [];
    const isHidden = drawn.length === 0 || drawing.scene?.nodes[drawn[0]].group !== undefined;
    // A node that is selected while it is only peeked at stays.
    if (how === "stay") this.keep();
    if (isHidden) this.change((folding) => revealNode(grouped.tree, folding, node, how));
  }

  /** Lets what was only peeked at stay open. */
  keep(): void {
    if (this.folding) this.folding = keepPeek(this.folding);
  }

  /** Folds in another way; what is in the middle of the view stays there, or a first view is shown. */
  change(transition: (folding: Folding) => Folding, view: "hold" | "first" = "hold"): void {
    const { folding, drawing } = this;
    if (!folding) return;
    const next = transition(folding);
    if (view === "hold") this.apply(next, (after) => holdMiddle(drawing, after));
    else this.apply(next, () => null);
  }

  private apply(folding: Folding, hold: (after: Scene) => Hold | null): void {
    const { grouped, drawing } = this;
    if (!grouped) return;
    this.folding = folding;
    const scene = this.scene();
    if (scene) drawing.replace(scene, hold(scene));
    else drawing.show(grouped.graph, this.direction);
    this.changed();
  }

  /** Undefined where nothing is folded or framed: the drawing then does what it does without groups. */
  private scene(): Scene | undefined {
    const { grouped, folding, direction, measure, cache, wraps } = this;
    if (!grouped || !folding || !this.canFold) return undefined;
    const folded = foldedScene(grouped, folding, direction, measure, { cache, wraps });
    this.wraps = folded.wraps;
    return folded.scene;
  }
}
