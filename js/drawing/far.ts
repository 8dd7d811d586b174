import { pathData } from "./curve";
import type { Box } from "./grid";
import type { Marks } from "./marks";
import type { Scene, SceneEdge, SceneNode } from "./scene";
import { stageOf, stageOfEdge } from "./stages";

/** Class and path data of everything in view, in a handful of paths: thousands of elements would be slow. */
export function batches(scene: Scene, view: Box, marks: Marks): [string, string][] {
  const paths = new Map<string, string[]>();
  const add = (name: string, data: string) => {
    const path = paths.get(name);
    if (path) path.push(data);
    else paths.set(name, [data]);
  };
  for (const edge of scene.edges) {
    const [left, top, right, bottom] = edge.bounds;
    if (left > view.right || right < view.left || top > view.bottom || bottom < view.top) continue;
    if (edge.quiet) {
      add(
        "gw-far-edge is-quiet",
        dataOf(edge, () => pathData(edge.curve)),
      );
      continue;
    }
    const stage = stageOfEdge(edge, marks);
    const flowed = stage === "flowed" || stage === "passing";
    const tint = marks.tint ? ` is-tinted ${marks.tint.edges[edge.index]}` : "";
    add(
      `gw-far-edge${flowed ? " is-flowed" : ""}${tint}`,
      dataOf(edge, () => pathData(edge.curve)),
    );
  }
  for (const node of scene.nodes) {
    const { x, y, shape } = node;
    if (x + shape.width / 2 < view.left || x - shape.width / 2 > view.right) continue;
    if (y + shape.height / 2 < view.top || y - shape.height / 2 > view.bottom) continue;
    add(
      farClass(node, marks),
      dataOf(node, () => boxData(node)),
    );
  }
  return Array.from(paths, ([name, parts]): [string, string] => [name, parts.join("")]);
}

/** Path data is written once: stepping through backward draws the same shapes in other colours at every step. */
const written = new WeakMap<SceneNode | SceneEdge, string>();

function dataOf(part: SceneNode | SceneEdge, write: () => string): string {
  let data = written.get(part);
  if (data === undefined) {
    data = write();
    written.set(part, data);
  }
  return data;
}

function farClass(node: SceneNode, marks: Marks): string {
  const { index, leaf, root, quiet, group } = node;
  if (quiet) return "gw-far-node gw-quiet";
  const kind = root ? "gw-root" : leaf ? "gw-leaf" : group ? "gw-closed" : "gw-op";
  if (marks.tint) return `gw-far-node is-tinted ${marks.tint.nodes[index]}`;
  const stage = stageOf(node, marks);
  const mark = stage === null ? "" : stage === "not reached" ? "is-unreached" : `is-${stage}`;
  return `gw-far-node ${kind} ${mark}`;
}

function boxData({ x, y, leaf, shape: { width, height } }: SceneNode): string {
  const [l, t, w, h] = [x - width / 2, y - height / 2, width, height].map(Math.round);
  if (!leaf) return `M${l},${t}h${w}v${h}h${-w}z`;
  const r = Math.floor(Math.min(w, h) / 2);
  return `M${l + r},${t}h${w - 2 * r}a${r},${r} 0 0 1 0,${2 * r}h${2 * r - w}a${r},${r} 0 0 1 0,${-2 * r}z`;
}
