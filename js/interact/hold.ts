import type { Scene } from "../scene/scene";
import type { Hold } from "../scene/views";
import type { Drawing } from "./drawing";

/** Find the place to hold, once the next picture exists; null for none. */
export type HoldIn = (after: Scene) => Hold | null;

/** The middle of the top of an opened group: of its frame, or of its first node. */
export function topOf(scene: Scene, path: string, id: number): [number, number] {
  const frame = scene.frames.find((other) => other.path === path);
  if (frame) return [(frame.left + frame.right) / 2, frame.top];
  const node = scene.nodes[scene.drawn[id][0] ?? 0];
  return node ? [node.x, node.y - node.shape.height / 2] : [0, 0];
}

/** Hold the bar of a block, or the view if all was visible; null if the block has no bar. */
export function holdBar({ scene, viewport }: Drawing, path: string): HoldIn | null {
  const barIn = ({ nodes }: Scene) =>
    nodes.find(({ bar, group }) => bar && group?.paths[0] === path);
  const bar = scene && barIn(scene);
  if (!bar) return null;
  const wasWhole = viewport.isWhole;
  return (after) => {
    const same = barIn(after);
    return wasWhole || !same ? null : { from: [bar.x, bar.y], to: [same.x, same.y] };
  };
}

/** Bring a closed group to a place of the scene before. */
export function holdBox(path: string, at: [number, number]): HoldIn {
  return (after) => {
    const box = after.nodes.find(({ group }) => group?.paths.includes(path));
    return box ? { from: at, to: [box.x, box.y] } : null;
  };
}

/** Hold the node nearest to the middle of the view that is in both pictures. */
export function holdMiddle(drawing: Drawing, after: Scene): Hold | null {
  const { scene, viewport } = drawing;
  if (!scene) return null;
  const { view } = viewport;
  const { width, height } = viewport.stage;
  const [x, y] = [(width / 2 - view.x) / view.k, (height / 2 - view.y) / view.k];
  let best: Hold | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const node of scene.nodes) {
    const distance = Math.hypot(node.x - x, node.y - y);
    const [index] = after.drawn[node.id];
    if (distance >= least || index === undefined) continue;
    least = distance;
    best = { from: [node.x, node.y], to: [after.nodes[index].x, after.nodes[index].y] };
  }
  return best;
}

/** Hold as many nodes as possible: the most common movement. */
export function holdMost(
  before: Scene,
  after: Scene,
  was: readonly (number | null)[],
): Hold | null {
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
