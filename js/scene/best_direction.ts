import type { Direction } from "../layout/direction";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";
import { MOST_CARDS } from "./card";
import { makeScene } from "./make_scene";
import { flatPlan } from "./plan";
import { fitView, type Size } from "./views";

/** A board reads from left to right unless it is this much larger the other way. */
const PREFERRED = 1.15;

/** The direction that shows a graph largest: data from left to right on a board, like a formula; else down. */
export function bestDirection(graph: GraphModel, stage: Size, measure: Measure): Direction {
  if (graph.static) return "up"; // its data flows down
  if (graph.nodes.length > MOST_CARDS) return "down";
  const plan = flatPlan(graph);
  const scale = (direction: Direction) =>
    fitView(makeScene(graph, plan, direction, measure), stage).k;
  return scale("left") * PREFERRED >= scale("down") ? "left" : "down";
}
