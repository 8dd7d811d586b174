import { layout } from "../layout/index";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { contentOf, flagsOf } from "./content";
import { moveEnds, smooth } from "./curve";
import { type Direction, isHorizontal, turn } from "./direction";
import { type EdgeLabel, labelSize, placeLabels } from "./labels";
import { leaveAt, separateRoutes } from "./ports";
import { type NodeShape, shapeOf } from "./shape";

/** A graph with every position known: plain numbers and strings, for any painter. */
export interface Scene {
  direction: Direction;
  width: number;
  height: number;
  nodes: SceneNode[];
  edges: SceneEdge[];
  /** Per node id, the indices in `nodes` of what is drawn for it: itself, then its copies. */
  drawn: number[][];
}

export interface SceneNode {
  /** Position in `Scene.nodes`. */
  index: number;
  /** The node of the graph that it stands for; copies of a shared leaf share it. */
  id: number;
  leaf: boolean;
  /** Whether it makes an output. */
  root: boolean;
  /** How often it is drawn. */
  copies: number;
  /** Centre. */
  x: number;
  y: number;
  rank: number;
  shape: NodeShape;
}

export interface SceneEdge {
  /** Position in `Scene.edges` and in the graph's edges. */
  index: number;
  /** Indices in `Scene.nodes`. */
  source: number;
  target: number;
  /** x, y of the start, then cubic segments of three points each. */
  curve: Float64Array;
  /** Left, top, right, bottom. */
  bounds: [number, number, number, number];
  label: EdgeLabel | null;
}

/** Ports keep off the corners of a box. */
const CORNER = 8;

/** A leaf with more uses than this is drawn once per use; below, one node shows how gradients add up. */
export const MOST_USES_OF_ONE = 3;

/** Lays the graph out and works out everything there is to draw. Does not touch the DOM. */
export function buildScene(graph: GraphModel, direction: Direction, measure: Measure): Scene {
  const horizontal = isHorizontal(direction);
  const { nodes, edges } = graph;
  const n = nodes.length;
  const uses = new Int32Array(n);
  for (const edge of edges) uses[edge.target]++;
  const shared = Uint8Array.from(nodes, (node, i) =>
    node.kind === "leaf" && uses[i] > MOST_USES_OF_ONE ? 1 : 0,
  );
  const flags = flagsOf(graph);
  const shapes = nodes.map((node, i) =>
    shapeOf(
      contentOf(node, flags.get(i) ?? [], shared[i] ? uses[i] : 1, measure),
      node.kind === "leaf",
      horizontal,
      measure,
    ),
  );
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
      copies: shared[id] ? uses[id] : 1,
      x,
      y,
      rank: placed.rank[index],
      shape: shapes[id],
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
    const curve = Float64Array.from(smooth(moveEnds(routes[index], leave[index], arrive)));
    for (let i = 0; i < curve.length; i += 2) [curve[i], curve[i + 1]] = at(curve[i], curve[i + 1]);
    return { index, source: edge.source, target, curve, bounds: boundsOf(curve), label: null };
  });
  const scene: Scene = {
    direction,
    width: horizontal ? placed.height : placed.width,
    height: horizontal ? placed.width : placed.height,
    nodes: sceneNodes,
    edges: sceneEdges,
    drawn,
  };
  placeLabels(scene, edges, measure);
  return scene;
}

function boundsOf(curve: Float64Array): [number, number, number, number] {
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
