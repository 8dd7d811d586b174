import type { Box } from "./grid";
import type { Scene } from "./scene";

/** The flat boxes of a scene's items, to find those in view: 100,000 comparisons take a fraction of a millisecond. */
class SceneIndex {
  /** Left, top, right, bottom of each node with its stubs. */
  private readonly nodes: Float32Array;
  private readonly edges: Float32Array;

  constructor(private readonly scene: Scene) {
    this.nodes = new Float32Array(4 * scene.nodes.length);
    scene.nodes.forEach(({ x, y, shape }, i) => {
      const [w, h] = [shape.outerWidth / 2, shape.outerHeight / 2];
      put(this.nodes, i, x - w, y - h, x + w, y + h);
    });
    this.edges = new Float32Array(4 * scene.edges.length);
    scene.edges.forEach(({ bounds }, i) => {
      put(this.edges, i, ...bounds);
    });
  }

  /** Indices of the drawn nodes within the box. */
  nodesIn(box: Box): number[] {
    return within(this.nodes, box);
  }

  edgesIn(box: Box): number[] {
    return within(this.edges, box);
  }

  /** The number of nodes within the box. */
  count({ left, top, right, bottom }: Box): number {
    const { nodes } = this;
    let count = 0;
    for (let i = 0; i < nodes.length; i += 4)
      if (
        nodes[i] <= right &&
        nodes[i + 2] >= left &&
        nodes[i + 1] <= bottom &&
        nodes[i + 3] >= top
      )
        count++;
    return count;
  }

  /** The drawn node at a point of the scene, or within `slack`. */
  nodeAt(px: number, py: number, slack: number): number | null {
    const around = { left: px - slack, top: py - slack, right: px + slack, bottom: py + slack };
    let best: number | null = null;
    let least = slack;
    for (const index of this.nodesIn(around)) {
      const { x, y, shape } = this.scene.nodes[index];
      const outside = Math.max(
        Math.abs(px - x) - shape.width / 2,
        Math.abs(py - y) - shape.height / 2,
      );
      if (outside > least) continue;
      best = index;
      least = outside;
    }
    return best;
  }
}

function put(
  bounds: Float32Array,
  i: number,
  left: number,
  top: number,
  right: number,
  bottom: number,
): void {
  bounds[4 * i] = left;
  bounds[4 * i + 1] = top;
  bounds[4 * i + 2] = right;
  bounds[4 * i + 3] = bottom;
}

function within(bounds: Float32Array, { left, top, right, bottom }: Box): number[] {
  const found: number[] = [];
  for (let i = 0; i < bounds.length; i += 4)
    if (
      bounds[i] <= right &&
      bounds[i + 2] >= left &&
      bounds[i + 1] <= bottom &&
      bounds[i + 3] >= top
    )
      found.push(i / 4);
  return found;
}

const known = new WeakMap<Scene, SceneIndex>();

/** A scene's index, made on first use. */
export function indexOf(scene: Scene): SceneIndex {
  let index = known.get(scene);
  if (!index) {
    index = new SceneIndex(scene);
    known.set(scene, index);
  }
  return index;
}
