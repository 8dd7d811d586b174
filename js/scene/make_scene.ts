import { type Direction, isHorizontal, turn } from "../layout/direction";
import { layout } from "../layout/index";
import type { Measure } from "../text/measure";
import type { EdgeModel, GraphModel, NodeModel } from "../wire";
import { contentOf, flagsOf } from "./content";
import { moveEnds, smooth } from "./curve";
import { labelSize, placeLabels } from "./labels";
import { leaveAt, separateRoutes } from "./ports";
import type { Scene, SceneEdge, SceneNode } from "./scene";
import { type BoxSize, type NodeShape, shapeOf } from "./shape";

/** The kind of a node that is none of autograd's, as a part of a `SceneNode`. */
export function quietPart({ kind }: NodeModel): Pick<SceneNode, "quiet"> {
  return kind === "op" || kind === "leaf" ? {} : { quiet: kind };
}

/** The kind of an edge that no gradient flows along, as a part of a `SceneEdge`. */
export function edgePart(kind: EdgeModel["kind"]): Pick<SceneEdge, "quiet"> {
  return kind === "gradient" ? {} : { quiet: kind };
}

/** Ports keep off the corners of a box. */
export const CORNER = 8;

/** A leaf with more uses than this is drawn once per use; below, one node shows how gradients add up. */
export const MOST_USES_OF_ONE = 3;

/** Per node, how often it is drawn: a leaf that many use, once per use. */
export function timesDrawn({ nodes, edges }: GraphModel): Int32Array {
  const uses = new Int32Array(nodes.length);
  for (const edge of edges) uses[edge.target]++;
  return uses.map((used, i) => (nodes[i].kind === "leaf" && used > MOST_USES_OF_ONE ? used : 1));
}

/** The boxes and words of all nodes; each box at least as large as the given one, if any. */
export function shapesOf(
  graph: GraphModel,
  direction: Direction,
  measure: Measure,
  times: ArrayLike<number> = timesDrawn(graph),
  least: readonly BoxSize[] = [],
): NodeShape[] {
  const flags = flagsOf(graph);
  return graph.nodes.map((node, i) =>
    shapeOf(
      contentOf(node, flags.get(i) ?? [], times[i], measure),
      node.kind === "leaf",
      isHorizontal(direction),
      measure,
      least[i],
    ),
  );
}

/** Lays the graph out and works out everything there is to draw. Does not touch the DOM. */
export function buildScene(
  graph: GraphModel,
  direction: Direction,
  measure: Measure,
  shapes: readonly NodeShape[] = shapesOf(graph, direction, measure),
): Scene {
  const horizontal = isHorizontal(direction);
  const { nodes, edges } = graph;
  const n = nodes.length;
  const times = timesDrawn(graph);
  const shared = Uint8Array.from(times, (copies) => (copies > 1 ? 1 : 0));
  const flags = flagsOf(graph);
  const widestLabel = edges.reduce(
    (widest, edge) =>
      edge.argument === null ? widest : Math.max(widest, measure(edge.argument, "edge")),
    0,
  );
  const placed = layout(
    {
      n,
      source: edges.map((edge) => edge.source),
      target: edges.map((edge) => edge.target),
      width: shapes.map((shape) => (horizontal ? shape.outerHeight : shape.outerWidth)),
      height: shapes.map((shape) => (horizontal ? shape.outerWidth : shape.outerHeight)),
      shared,
    },
    {
      nodeGap: horizontal ? 18 : 26,
      rankGap: horizontal ? Math.max(52, Math.min(96, widestLabel + 34)) : 50,
    },
  );

  const at = turn(direction, placed.height);
  const drawn: number[][] = nodes.map(() => []);
  const sceneNodes = Array.from(placed.owner, (id, index): SceneNode => {
    drawn[id].push(index);
    const [x, y] = at(placed.x[index], placed.y[index]);
    return {
      index,
      id,
      leaf: nodes[id].kind === "leaf",
      root: flags.has(id),
      copies: times[id],
      x,
      y,
      rank: placed.rank[index],
      shape: shapes[id],
      ...quietPart(nodes[id]),
    };
  });
  const share = shapes.map((shape) =>
    horizontal ? shape.height / shape.outerHeight : shape.width / shape.outerWidth,
  );
  const routes = separateRoutes(placed, edges);
  const leave = leaveAt(
    routes,
    edges,
    {
      centre: (id) => placed.x[id],
      share: (id) => share[id],
      room: (id) => (horizontal ? shapes[id].height : shapes[id].width) / 2 - CORNER,
    },
    (edge) => labelSize(edge, horizontal, measure),
  );
  const sceneEdges = edges.map((edge, index): SceneEdge => {
    const target = placed.edgeTarget[index];
    const centre = placed.x[target];
    const [end] = routes[index][routes[index].length - 1];
    const arrive = centre + (end - centre) * share[edge.target];
    const curve = new Float64Array(smooth(moveEnds(routes[index], leave[index], arrive)));
    for (let i = 0; i < curve.length; i += 2) [curve[i], curve[i + 1]] = at(curve[i], curve[i + 1]);
    const bounds = boundsOf(curve);
    return {
      index,
      source: edge.source,
      target,
      curve,
      bounds,
      label: null,
      ...edgePart(edge.kind),
    };
  });
  const scene: Scene = {
    direction,
    isStatic: graph.static,
    width: horizontal ? placed.height : placed.width,
    height: horizontal ? placed.width : placed.height,
    nodes: sceneNodes,
    edges: sceneEdges,
    drawn,
  };
  placeLabels(scene, edges, measure);
  return scene;
}

export function boundsOf(curve: Float64Array): [number, number, number, number] {
  let [left, top] = curve;
  let [right, bottom] = curve;
  for (let i = 2; i < curve.length; i += 2) {
    left = Math.min(left, curve[i]);
    right = Math.max(right, curve[i]);
    top = Math.min(top, curve[i + 1]);
    bottom = Math.max(bottom, curve[i + 1]);
  }
  return [left, top, right, bottom];
}
