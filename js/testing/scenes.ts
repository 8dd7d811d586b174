import { makeScene } from "../arrange/pipeline";
import type { Direction } from "../layout/direction";
import { flatPlan } from "../scene/plan";
import type { Scene } from "../scene/scene";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";

/** The scene of a graph with every node drawn and no boxes. */
export function sceneOf(graph: GraphModel, direction: Direction = "down"): Scene {
  return makeScene(graph, flatPlan(graph), direction, estimate);
}

/** The same without cards, as for larger graphs. */
export function plainSceneOf(graph: GraphModel, direction: Direction = "down"): Scene {
  return makeScene(graph, flatPlan(graph), direction, estimate, { cards: false });
}
