import { expect, it } from "vitest";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { edgeClass } from "./classes";
import { type Marks, NO_MARKS } from "./marks";

const graph = MODELS["h = w * x + b"]();
const scene = sceneOf(graph);
const { steps, run } = fakeRun(graph, "fine");
const recording = recordingOf(graph, steps, run);
const classOf = (change: Partial<Marks>) =>
  edgeClass(scene.edges[run.edges[0]], scene, { ...NO_MARKS, ...change });

it("dashes a line until its gradient has flowed", () => {
  expect(classOf({})).toBe("gw-edge is-pending");
  expect(classOf({ progress: { recording, cursor: 0 } })).toContain("is-pending");
  expect(classOf({ progress: { recording, cursor: steps.length } })).toContain("is-flowed");
});

it("does not dash the lines of a graph that was freed before the widget saw a pass", () => {
  const freed = new Set([0]);
  expect(classOf({ freed })).toBe("gw-edge is-pending is-plain");
  expect(classOf({ freed, progress: { recording, cursor: 0 } })).toBe("gw-edge is-pending");
});

it("marks the line of several bars for each of them", () => {
  const [edge] = scene.edges;
  const other = scene.nodes.find(({ index }) => index !== edge.source && index !== edge.target);
  const marks = { ...NO_MARKS, hovered: other?.id ?? null };
  expect(edgeClass(edge, scene, marks)).not.toContain("is-lit");
  expect(edgeClass({ ...edge, bars: [other?.index ?? -1] }, scene, marks)).toContain("is-lit");
});
