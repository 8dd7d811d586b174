import { describe, expect, test } from "vitest";
import { Obstacles } from "./obstacles";
import type { Scene } from "./scene";

const WIDE = 400;
const SHARES = [0.72, 0.62, 0.8, 0.52, 0.42, 0.32, 0.22];

/** A straight arrow, from left to right or down, through the borders of open boxes. */
function through(borders: readonly number[], isAside: boolean): Scene {
  const along = (at: number) => (isAside ? [at, 0] : [0, at]);
  const frames = borders.map((at) =>
    isAside
      ? { left: at, right: 2 * WIDE, top: -60, bottom: 60 }
      : { left: -60, right: 60, top: -WIDE, bottom: at },
  );
  const curve = Float64Array.from([0, WIDE / 3, (2 * WIDE) / 3, WIDE].flatMap(along));
  const edges = [{ curve, index: 0 }];
  return { nodes: [], edges, frames, direction: isAside ? "right" : "down" } as unknown as Scene;
}

describe.each([true, false])("a text on an arrow (to the side: %s)", (isAside) => {
  test.each([...Array(9).keys()].map((i) => 40 * (i + 1)))(
    "is clear of a border at %i",
    (border) => {
      const scene = through([border], isAside);
      const place = new Obstacles(scene).findOnEdge(scene.edges[0], 50, SHARES);
      const [at, size] = isAside ? [place?.x, place?.width] : [place?.y, place?.height];
      expect(Math.abs((at ?? border) - border)).toBeGreaterThan((size ?? 0) / 2);
    },
  );

  test("covers a border only without another place", () => {
    const scene = through(
      [...Array(40).keys()].map((i) => 10 * i),
      isAside,
    );
    expect(new Obstacles(scene).findOnEdge(scene.edges[0], 50, SHARES)).not.toBeNull();
  });
});

test("a text beside a line at the left edge is on the picture's side of it", () => {
  const scene = { ...through([], false), width: 200 };
  scene.edges[0].curve.forEach((_, i, curve) => {
    if (i % 2 === 0) curve[i] = 2;
  });
  const place = new Obstacles(scene).findOnEdge(scene.edges[0], 60, SHARES, "beside");
  expect((place?.x ?? 0) - 30).toBeGreaterThanOrEqual(2);
});

test("a text touches no line where another one is on it", () => {
  const scene = through([], true);
  const [edge] = scene.edges;
  const twice = { ...scene, edges: [edge, { ...edge, index: 1 }] };
  expect(new Obstacles(scene).findOnEdge(edge, 50, SHARES, "touching")).not.toBeNull();
  expect(new Obstacles(twice).findOnEdge(edge, 50, SHARES, "touching")).toBeNull();
});
