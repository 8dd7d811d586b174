import { drawnFor } from "../scene/members";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";

/** Some of a scene's nodes and edges, in their order. */
export interface ScenePiece {
  nodes: SceneNode[];
  edges: SceneEdge[];
}

/** A scene without its pieces, and its graph's number of nodes. */
export interface SceneRest extends Omit<Scene, "nodes" | "edges" | "drawn"> {
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
