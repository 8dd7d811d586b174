import { expect, it } from "vitest";

import { describeDrawn } from "../interact/describe";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { placeGradients } from "../testing/gradients";
import { graphOf } from "../testing/panes";
import { sceneOf } from "../testing/scenes";
import { estimate } from "../text/measure";
import { nodeClass } from "./classes";
import { fewOf } from "./gradient_label";
import { GradientLayer, visibleGradients } from "./gradients";
import { gradientParts } from "./label_parts";
import { NO_MARKS } from "./marks";

/** A chain of products of `w` and the product before. */
function loop(uses: number) {
  const chain = Array.from({ length: uses }, (_, i) => i);
  const graph = graphOf(
    [...chain.map(() => "- op Mul"), "w leaf"],
    chain.flatMap((i) => [`${i} ${uses} self`, ...(i < uses - 1 ? [`${i} ${i + 1} other`] : [])]),
  );
  const nodes = graph.nodes.map((node) => ({ ...node, value: 0.5, shape: [] }));
  return { ...graph, nodes };
}

function drawn(uses: number) {
  const graph = loop(uses);
  const scene = sceneOf(graph, "left");
  const { steps, run } = fakeRun(graph, "fine");
  const recording = recordingOf(graph, steps, run);
  const labels = placeGradients(scene, recording, estimate);
  const copies = scene.drawn[uses].map((index) => scene.nodes[index]);
  return { graph, scene, steps, run, recording, labels, copies };
}

it("has the share of its own use in each copy of a leaf, and the sum in one", () => {
  const { scene, run, labels, copies, recording } = drawn(12);
  expect(copies).toHaveLength(12);
  for (const { index, use } of copies) {
    const [arrow, ...others] = scene.edges.filter(({ target }) => target === index);
    expect(others).toEqual([]);
    expect(use).toBe(arrow.index);
    const [share, ...more] = labels.filter(({ edge, local }) => edge === use && !local);
    expect(more).toEqual([]);
    expect(fewOf({ values: run.values[run.edges.indexOf(use as number)], norm: null })).toContain(
      share.text,
    );
    expect(share.stored).toBe(false);
    const { x, shape } = scene.nodes[index];
    expect(share.x + share.width / 2).toBeCloseTo(x + shape.width / 2);
  }
  const totals = labels.filter(({ stored }) => stored);
  expect(totals.map(({ nodes }) => nodes)).toEqual([[12]]);
  expect(gradientParts(totals[0]).at(-1)?.content).toBe(`\u03a3 ${totals[0].text}`);
  const [sum, ...rest] = copies.filter(({ copies, isCopy }) => copies > 1 && !isCopy);
  expect(rest).toEqual([]);
  expect(sum.rank).toBe(Math.max(...copies.map(({ rank }) => rank)));
  const first = { ...recording.stored.get(12), before: { values: 2, norm: 2 } } as never;
  const grown = placeGradients(
    scene,
    recordingOf(loop(12), [], { ...run, grads: [first] }),
    estimate,
  );
  const more = grown.find(({ stored, until }) => stored && until === undefined);
  expect(more && gradientParts(more).at(-1)?.content).toBe(`\u03a3 ${more?.text}`);
});

it("has shares as they arrive", () => {
  const { scene, recording, labels, copies, graph } = drawn(12);
  for (const cursor of [0, 5, recording.steps.length]) {
    const progress = { recording, cursor };
    const seen = visibleGradients(labels, scene, progress);
    const shares = seen.filter(({ edge, cell }) => edge !== null && cell !== undefined);
    const came = copies.filter(({ use }) => recording.flows[use as number] <= cursor);
    expect(shares.map(({ edge }) => edge).sort()).toEqual(came.map(({ use }) => use).sort());
    for (const copy of copies) {
      const { lines } = describeDrawn(graph, copy, { ...NO_MARKS, progress });
      expect(lines.some((line) => line.startsWith("share of this use "))).toBe(came.includes(copy));
    }
  }
});

it("has what a leaf holds once, and no share, where no pass was recorded", () => {
  const { scene, copies } = drawn(12);
  const held = new Map([[12, { values: 3, norm: 3 }]]);
  const labels = new GradientLayer(estimate).at(scene, { ...NO_MARKS, held });
  expect(labels.map(({ text, stored }) => [text, stored])).toEqual([["3", true]]);
  expect(gradientParts(labels[0]).at(-1)?.content).toBe("\u03a3 3");
  const classes = copies.map((copy) => nodeClass(copy, NO_MARKS, new Set()));
  expect(classes.filter((name) => name.includes("gw-copy"))).toHaveLength(11);
});

it("has them in large cards, too", () => {
  const uses = Array.from({ length: 9 }, (_, i) => `0 1 tensors[${i}]`);
  const graph = graphOf(["- op Stack", "w leaf"], uses);
  const scene = sceneOf(graph, "left");
  const { steps, run } = fakeRun(graph, "fine");
  const labels = placeGradients(scene, recordingOf(graph, steps, run), estimate);
  expect(scene.nodes.every(({ shape }) => shape.card?.size === "full")).toBe(true);
  expect(labels.filter(({ edge, cell }) => edge !== null && cell)).toHaveLength(9);
  expect(labels.filter(({ stored }) => stored)).toHaveLength(1);
  for (const { shape } of scene.nodes.filter(({ copies, isCopy }) => copies > 1 && !isCopy))
    for (const { y, height } of [
      ...(shape.card?.rows ?? []),
      shape.card?.grad ?? { y: 0, height: 0 },
    ])
      expect(Math.abs(y) + height / 2).toBeLessThanOrEqual(shape.height / 2);
});
