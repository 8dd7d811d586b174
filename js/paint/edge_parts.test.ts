import { expect, it } from "vitest";
import { jump, straight } from "../scene/curve";
import type { SceneEdge } from "../scene/scene";
import { edgeParts } from "./edge_parts";

/** A line from a user at 0 to a producer at 500 that is not drawn between their portals. */
function portalEdge(isKnown: boolean): SceneEdge {
  const end = straight([
    [500, 20],
    [500, 0],
  ]);
  const start = straight([
    [0, 0],
    [0, 20],
  ]);
  return {
    ...{ index: 0, source: 0, target: 1, label: null, backward: false },
    curve: Float64Array.from([...start, ...jump([500, 20]), ...end.slice(2)]),
    bounds: [0, 0, 500, 20],
    portal: { text: "time", width: 40, ...(isKnown && { isKnown }) },
  };
}

const namesOf = (edge: SceneEdge, isStatic = false) =>
  edgeParts(edge, [0, -1], isStatic).map(({ attributes }) => attributes.class);

it("draws a portal at both ends of a line, and the one at a producer once", () => {
  expect(namesOf(portalEdge(false))).toEqual([
    "gw-line",
    "gw-arrow",
    "gw-edge-portal",
    "gw-edge-portal",
  ]);
  expect(namesOf(portalEdge(true))).toEqual(["gw-line", "gw-edge-portal"]);
  const [line] = edgeParts(portalEdge(true), [0, -1]);
  expect(line.attributes.d).not.toContain("500");
});

it("keeps the arrow at the user in a static graph", () => {
  expect(namesOf(portalEdge(true), true)).toContain("gw-arrow");
});
