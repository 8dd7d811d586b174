import type { Folding } from "../fold/folding";
import type { Direction } from "../layout/direction";
import { drawnFor } from "../scene/members";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";
import type { Size } from "../scene/views";
import type { GraphModel, Travelled } from "../wire";

/** The drawn version of a graph, and its names. */
interface ShownAs {
  constants: boolean;
  /** Whether operations have torch's names instead of a board's. */
  torchNames: boolean;
}

export interface GraphSource extends ShownAs {
  given: Travelled<GraphModel>;
}

/** The inputs of a scene besides the graph. */
export interface SceneOrder {
  folding: Folding;
  direction: Direction;
  room: Size;
}

/** The page's messages to the worker: the graph once, then a request per picture. */
export type Request =
  | { kind: "graph"; given: Travelled<GraphModel> }
  | ({ kind: "scene"; request: number; order: SceneOrder } & ShownAs);

export type Doing = "layout" | "drawing";

/** The worker's messages; pieces come before their scene. `widths` of samples show whether its fonts are the page's. */
export type Answer =
  | { kind: "hello"; widths: number[] }
  | { kind: "doing"; request: number; doing: Doing }
  | { kind: "piece"; request: number; piece: ScenePiece }
  | { kind: "scene"; request: number; rest: SceneRest }
  | { kind: "fault"; request: number; message: string };

/** One end of the connection between the page and the worker. */
export interface Port {
  postMessage(message: unknown, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/** This name identifies our workers, because they run the widget's script. */
export const WORKER_NAME = "gradwalk scenes";

/** Some of a scene's nodes and edges, in their order. */
export interface ScenePiece {
  nodes: SceneNode[];
  edges: SceneEdge[];
}

/** A scene without its pieces, and its graph's number of nodes. */
interface SceneRest extends Omit<Scene, "nodes" | "edges" | "drawn"> {
  graphNodes: number;
}

/** The most nodes and edges of a piece: receiving one blocks the page. */
const MOST = 1000;

/** A scene in pieces for the transfer from a worker, each with one buffer for its curves. */
export function* piecesOf({ nodes, edges }: Scene): Generator<[ScenePiece, ArrayBuffer]> {
  for (let i = 0; i < Math.max(nodes.length, edges.length); i += MOST) {
    const some = edges.slice(i, i + MOST);
    const points = new Float64Array(some.reduce((sum, { curve }) => sum + curve.length, 0));
    let at = 0;
    const moved = some.map((edge) => {
      points.set(edge.curve, at);
      at += edge.curve.length;
      return { ...edge, curve: points.subarray(at - edge.curve.length, at) };
    });
    yield [{ nodes: nodes.slice(i, i + MOST), edges: moved }, points.buffer];
  }
}

export function restOf({ nodes: _n, edges: _e, drawn, ...rest }: Scene): SceneRest {
  return { ...rest, graphNodes: drawn.length };
}

/** Join the pieces of a scene. */
export function joined(pieces: readonly ScenePiece[], { graphNodes, ...rest }: SceneRest): Scene {
  const nodes = pieces.flatMap((piece) => piece.nodes);
  const edges = pieces.flatMap((piece) => piece.edges);
  return { ...rest, nodes, edges, drawn: drawnFor(nodes, graphNodes) };
}
