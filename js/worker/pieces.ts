import { drawnFor } from "../scene/members";
import type { Scene, SceneEdge, SceneNode } from "../scene/scene";

/** Some of a scene's nodes and edges, in their order. */
export interface ScenePiece {
  nodes: SceneNode[];
  edges: SceneEdge[];
}

/** A scene without what crosses in pieces, and how many nodes its graph has. */
export interface SceneRest extends Omit<Scene, "nodes" | "edges" | "drawn"> {
  graphNodes: number;
}

/** Most nodes and edges of a piece: while one is received, the page answers to nothing. */
const MOST = 1000;

/** A scene as it crosses from a worker: in pieces, each with the one buffer that all its curves lie in. */
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

/** The scene whose pieces these are. */
export function joined(pieces: readonly ScenePiece[], { graphNodes, ...rest }: SceneRest): Scene {
  const nodes = pieces.flatMap((piece) => piece.nodes);
  const edges = pieces.flatMap((piece) => piece.edges);
  return { ...rest, nodes, edges, drawn: drawnFor(nodes, graphNodes) };
}
