import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { pointAt } from "./curve";
import type { Place } from "./grid";
import { Obstacles, TEXT_HEIGHT, TEXT_PAD } from "./obstacles";
import type { Plan } from "./plan";
import type { Scene } from "./scene";

/** The word on a line that bypasses operations unchanged. */
const RESIDUAL = "residual";
/** The word on a bypass that sibling blocks replace by modules, such as a ResNet's downsampling. */
const IDENTITY = "identity";
const SUM = /^Add(cmul|cdiv)?Backward0$/;
/** How far back a bypass is searched, in lines. */
const FURTHEST = 400;
/** Positions of the word on a line's longest piece, best first. */
const PLACES = [0.5, 0.4, 0.6, 0.3, 0.7];

/** A residual: its index among the edges, and its word. */
interface Skip {
  edge: number;
  word: string;
}

/** Find the residuals: edges from a sum straight to a tensor that also reaches it through at least one box. */
export function skipsIn(graph: GraphModel, { nodes, edges }: Plan): Skip[] {
  if (!nodes.some(({ group }) => group)) return [];
  const out: number[][] = nodes.map(() => []);
  edges.forEach(({ source }, e) => {
    out[source].push(e);
  });
  const tensorOf = (e: number) => `${graph.edges[e].target} ${graph.edges[e].output_nr}`;
  const isSum = (v: number) => !nodes[v].group && SUM.test(graph.nodes[nodes[v].id].op);
  /** Whether a path from these edges through a box ends with the same tensor. */
  const arrives = (first: readonly number[], tensor: string) => {
    const next: [edge: number, pastBox: boolean][] = first.map((e) => [e, false]);
    const seen = new Set(first.map((e) => 2 * e));
    for (let i = 0; i < next.length && i < FURTHEST; i++) {
      const [e, pastBox] = next[i];
      if (pastBox && edges[e].edges.some((one) => tensorOf(one) === tensor)) return true;
      const { target } = edges[e];
      const isPast = pastBox || nodes[target].group !== null;
      for (const following of out[target]) {
        const state = 2 * following + (isPast ? 1 : 0);
        if (!seen.has(state)) next.push([following, isPast]);
        seen.add(state);
      }
    }
    return false;
  };
  const skips = edges.flatMap(({ source, edges: parts, folded, count }, e) => {
    if (count > 1 || folded.length > 0 || out[source].length < 2 || !isSum(source)) return [];
    if (graph.edges[parts[0]].kind !== "gradient") return [];
    const others = out[source].filter((other) => other !== e);
    return arrives(others, tensorOf(parts[parts.length - 1])) ? [e] : [];
  });
  const pasts = new Set(skips.map((e) => edges[e].source));
  const classes = new Map(
    graph.modules.namespaces.map((path, i) => [path, graph.modules.classes[i]]),
  );
  const kindOf = (v: number) => {
    const path = graph.nodes[nodes[v].id].namespace ?? "";
    return classes.get(path) ?? path.slice(0, path.lastIndexOf("/"));
  };
  // Only sums of boxes, because other blocks change the tensor there.
  const areOfBoxes = nodes.flatMap((_, v) => {
    const takes = out[v].filter((e) => nodes[edges[e].target].group);
    return isSum(v) && !pasts.has(v) && takes.length > 1 ? [kindOf(v)] : [];
  });
  const changed = new Set(areOfBoxes);
  return skips.map((edge) => ({
    edge,
    word: changed.has(kindOf(edges[edge].source)) ? IDENTITY : RESIDUAL,
  }));
}

/** Write residuals' words on lines with room. */
export function nameSkips(scene: Scene, skips: readonly Skip[], measure: Measure): void {
  if (skips.length === 0) return;
  const obstacles = new Obstacles(scene);
  for (const { edge, word } of skips) {
    const width = measure(word, "edge") + 2 * TEXT_PAD;
    const { curve, index } = scene.edges[edge];
    const pieces = (curve.length - 2) / 6;
    const length = (piece: number) =>
      Math.abs(curve[6 * piece + 6] - curve[6 * piece]) +
      Math.abs(curve[6 * piece + 7] - curve[6 * piece + 1]);
    let longest = 0;
    for (let piece = 1; piece < pieces; piece++)
      if (length(piece) > length(longest)) longest = piece;
    const places = PLACES.map((share): Place => {
      const [x, y] = pointAt(curve, (longest + share) / pieces);
      return { x, y, width, height: TEXT_HEIGHT };
    });
    const place = places.find((one) => obstacles.isFree(one, index));
    if (!place) continue;
    obstacles.add(place);
    scene.edges[edge].label = { text: word, ...place };
  }
}
