import { expect, it } from "vitest";
import { NO_MARKS } from "../paint/marks";
import { pointAt } from "../scene/curve";
import { passedIn, recordingOf } from "../steps/recording";
import { fakeRun, SITUATIONS } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { plainSceneOf } from "../testing/scenes";
import { exactText } from "../text/gradient";
import { formatShape } from "../text/shorten";
import { describeEdge } from "./describe";
import { edgeAt } from "./hit";

const graph = Object.values(MODELS)[0]();
const scene = plainSceneOf(graph, "down");
const { steps, run } = fakeRun(graph, SITUATIONS[0]);
const recording = recordingOf(graph, steps, run);

it("finds an arrow by a place on it, and none far from all", () => {
  for (const edge of scene.edges) {
    const found = edgeAt(scene, ...pointAt(edge.curve, 0.5), 1);
    expect(found).not.toBeNull();
  }
  expect(edgeAt(scene, -1e5, -1e5, 1)).toBeNull();
});

it("says the shape of an arrow's tensor, which short arrows have no room for", () => {
  for (const edge of scene.edges) {
    const { target, output_nr } = graph.edges[edge.index];
    const { shape } = graph.nodes[target];
    const known = shape !== null && output_nr === 0 ? [`shape ${formatShape(shape)}`] : [];
    const { lines } = describeEdge(graph, edge, NO_MARKS);
    expect(lines.filter((line) => line.startsWith("shape"))).toEqual(known);
  }
});

it("shows the gradient of an arrow with all digits, once it has flowed", () => {
  const given = scene.edges.map((edge) => {
    const at = (cursor: number) =>
      describeEdge(graph, edge, { ...NO_MARKS, progress: { recording, cursor } });
    expect(at(0).lines.some((line) => line.startsWith("gradient"))).toBe(false);
    return at(steps.length).lines.find((line) => line.startsWith("gradient"));
  });
  const flowed = run?.edges.map((edge, i) => [edge, `gradient ${exactText(passedIn(run, i))}`]);
  expect(flowed?.length).toBeGreaterThan(3);
  for (const [edge, text] of flowed ?? []) expect(given[edge as number]).toBe(text);
});
