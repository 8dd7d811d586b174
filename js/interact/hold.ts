import type { Scene } from "../scene/scene";
import type { Hold } from "../scene/views";
import type { Drawing } from "./drawing";

/** What is to stay where it is, found once the next picture is there; null for nothing. */
export type HoldIn = (after: Scene) => Hold | null;

/** The middle of the top of what shows a group once it is opened: its frame, or without one the first node in it. */
export function topOf(scene: Scene, path: string, id: number): [number, number] {
  const frame = scene.frames.find((other) => other.path === path);
  if (frame) return [(frame.left + frame.right) / 2, frame.top];
  const node = scene.nodes[scene.drawn[id][0] ?? 0];
  return node ? [node.x, node.y - node.shape.height / 2] : [0, 0];
}

/** Has the bar of a block stay where it is, or all be seen as before; null if the block has no bar. */
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

/** Brings a group that was closed to a place in the scene before. */
export function holdBox(path: string, at: [number, number]): HoldIn {
  return (after) => {
    const box = after.nodes.find(({ group }) => group?.paths.includes(path));
    return box ? { from: at, to: [box.x, box.y] } : null;
  };
}

/** Holds the node nearest to the middle of the view that the next picture also shows. */
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

/** Holds as many nodes as can be where they are: what most of those that were there before moved by. */
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
