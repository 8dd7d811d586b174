// @vitest-environment jsdom
import { expect, it } from "vitest";
import { recordingOf } from "../../steps/recording";
import { fakeRun } from "../../testing/fake_run";
import { placeGradients } from "../../testing/gradients";
import { graphOf } from "../../testing/panes";
import { sceneOf } from "../../testing/scenes";
import { estimate } from "../../text/measure";
import type { WhatIfModel } from "../../wire";
import { marksOver } from "./marks";

const few = (one: number) => ({ values: one, norm: Math.abs(one) });

it("writes the new share of an edited use, marks other shares as earlier ones, and tags a leaf once", () => {
  const chain = Array.from({ length: 12 }, (_, i) => i);
  const graph = graphOf(
    [...chain.map(() => "- op Mul"), "w leaf"],
    chain.flatMap((i) => [`${i} 12 self`, ...(i < 11 ? [`${i} ${i + 1} other`] : [])]),
  );
  const scene = sceneOf(graph, "left");
  const { steps, run } = fakeRun(graph, "fine");
  const cells = placeGradients(scene, recordingOf(graph, steps, run), estimate);
  const answer: WhatIfModel = {
    ...{ failed: null, leaf_count: 1, names: [], nodes: [], ran: 1, code: "", notes: [] },
    edits: [{ label: "", was: few(1), now: few(0.5) }],
    leaves: [
      {
        ...{ node: 12, name: "w", before: few(77), after: few(78), difference: few(1) },
        ...{ rest: null, named: [] },
      },
    ],
    reached: [10, 11],
  };
  const edit = { kind: "scale", edge: [3, 0], value: 0.5, name: null, off: false } as const;
  const marks = marksOver(
    scene,
    {
      ...{ graph, answer, selected: null, lit: null },
      edits: [{ ...edit, edge: [...edit.edge] }],
      cells: cells.filter(({ cell, until }) => cell && until === undefined),
    },
    estimate,
  );
  const found = marks.flatMap((mark) =>
    mark.matches(".gw-new-grad") ? [mark.querySelector("text:not(.gw-was)")?.textContent] : [],
  );
  expect(found.sort()).toEqual(["", "", "0.5"]);
  const earlier = marks.flatMap((mark) => [...mark.querySelectorAll(".gw-was")]);
  expect(earlier.some(({ textContent }) => textContent?.startsWith("was "))).toBe(true);
  const tags = marks.filter((mark) => mark.matches(".gw-leaf-change"));
  expect(tags.map(({ textContent }) => textContent)).toEqual(["77 \u2192 78"]);
});
