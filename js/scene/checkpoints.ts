import { perObject } from "../maps";
import type { CheckpointModel, GraphModel, NodeModel } from "../wire";

/** The sign of a node that runs forward again in backward. */
export const AGAIN = "↻";

const byBox = perObject(
  (checkpoints: GraphModel["checkpoints"]) =>
    new Map(checkpoints.map((each) => [each.box ?? "", each])),
);

/** The checkpointed region of a box; null for other groups. */
export function regionOf({ checkpoints }: GraphModel, path: string): CheckpointModel | null {
  return (path && byBox(checkpoints).get(path)) || null;
}

/** The words of a region's box: "↻ saves 38 MiB". */
export function regionWords({ saves }: CheckpointModel): string {
  return saves === "" ? `${AGAIN} runs again` : `${AGAIN} ${saves}`;
}

/** The words of a box that runs forward again in backward, or that a plan advises; null for others. */
export function againWords(graph: GraphModel, path: string): string | null {
  const region = regionOf(graph, path);
  if (region) return regionWords(region);
  return graph.plan?.advised.includes(path) ? `${AGAIN} advised` : null;
}

/** Whether a node has the mark itself, because no box around it does. */
export function isMarked({ checkpoints }: GraphModel, { checkpoint }: NodeModel): boolean {
  if (checkpoint === null) return false;
  for (let at: number | null = checkpoint; at !== null; at = checkpoints[at].parent)
    if (checkpoints[at].box !== null) return false;
  return true;
}
