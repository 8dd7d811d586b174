import { expect, it } from "vitest";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { edgeClass, neighbours } from "./classes";
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

it("marks the line of several bars, and the node at its other end, for each of them", () => {
  const [{ source, target }] = scene.edges;
  const [from, to] = [scene.nodes[source].id, scene.nodes[target].id];
  const other = scene.nodes.find(({ index }) => index !== source && index !== target)?.index ?? -1;
  const bar = { strip: 0, grows: "up", room: 9, isAgain: false } as const;
  const nodes = scene.nodes.map((node) =>
    node.index === source || node.index === other ? { ...node, bar } : node,
  );
  const edge = { ...scene.edges[0], bars: [source, other] };
  const strips = { ...scene, nodes, edges: [edge] };
  const marks = { ...NO_MARKS, hovered: nodes[other].id };
  expect(edgeClass(scene.edges[0], scene, marks)).not.toContain("is-lit");
  expect(edgeClass(edge, strips, marks)).toContain("is-lit");
  expect(neighbours(strips, marks)).toEqual(new Set([to]));
  expect(neighbours(strips, { ...marks, hovered: to })).toEqual(new Set([from, marks.hovered]));
});
