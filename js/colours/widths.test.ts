// @vitest-environment jsdom
import { expect, it } from "vitest";
import { widthEntries } from "../controls/legend";
import { edgeClass } from "../paint/classes";
import { NO_MARKS } from "../paint/marks";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { gradientNorms } from "./norms";
import { widthsOf } from "./widths";

const graph = MODELS["h = w * x + b"]();
const scene = sceneOf(graph);
const { steps, run } = fakeRun(graph, "fine");

it("makes lines wider with the logarithm of the norm, once the gradient flowed", () => {
  const norms = run.edges.map((_, i) => 10 ** -i);
  const widths = widthsOf(scene, gradientNorms(graph, { ...run, norms }));
  const places = run.edges.map((edge) => Number(widths?.edges[edge].slice("is-w".length)));
  expect(places[0]).toBe(8);
  expect(places.at(-1)).toBe(0);
  for (let i = 1; i < places.length; i++) expect(places[i]).toBeLessThan(places[i - 1]);
  const recording = recordingOf(graph, steps, run);
  const classAt = (cursor: number) =>
    edgeClass(scene.edges[run.edges[0]], scene, {
      ...NO_MARKS,
      widths,
      progress: { recording, cursor },
    });
  expect(classAt(0)).not.toContain("is-w");
  expect(classAt(steps.length)).toContain("is-w8");
  expect(widthEntries(widths).map(({ textContent }) => textContent)).toEqual([
    "gradient norm 0.00100",
    "norm 1.00",
  ]);
});

it("has no widths without norms, and no key", () => {
  const norms = run.edges.map(() => null);
  const bare = { ...run, norms, seeds: [], grads: [] };
  expect(widthsOf(scene, gradientNorms(graph, bare))).toBeNull();
  expect(widthEntries(null)).toEqual([]);
});
