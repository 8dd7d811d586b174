// @vitest-environment jsdom
import fc from "fast-check";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { firstScene } from "../arrange/first_view";
import { localChannel } from "../channel";
import { choices } from "../controls/choices";
import type { Marks } from "../paint/marks";
import { NO_MARKS, seenMarks } from "../paint/marks";
import { shownGraph } from "../scene/shown_graph";
import { recordingOf } from "../steps/recording";
import { fakeBrowser, nextFrame, testPage } from "../testing/browser";
import { fakeRun, type Situation } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { freshTraits } from "../testing/traits";
import { estimate } from "../text/measure";
import { createView } from "../view";
import type { GraphModel, JsonNumber, RunModel, StepModel, Values } from "../wire";
import { Drawing } from "./drawing";
import { renewed } from "./fold_controller";

testPage();
// The panel is below the picture, where it hides nothing that the camera would then bring into view.
beforeEach(() => void fakeBrowser(900));

/** Graphs without constants and cuts, so that every node and edge may have numbers. */
const GRAPHS = Object.entries(MODELS)
  .map(([name, make]) => [name, shownGraph(make(), false)] as const)
  .filter(([, { nodes }]) => nodes.length <= 170);

/** The default choices. */
const CHOICES = { ...choices };

// The first widget of a page says what its colours mean, and the others do not.
beforeAll(() => localStorage.setItem("gradwalk.met", "1"));

/** Numbers at one time: nodes' values, and a pass' gradients. */
interface Moment {
  values: (Values | null)[];
  steps: StepModel[];
  run: RunModel;
}

/** Random numbers for one time. */
function momentOf(graph: GraphModel, seed: number, situation: Situation): Moment {
  const { steps, run } = fakeRun(graph, situation);
  const given = [0, 1, -2.5, 1e-9, 123456.7, "nan", "inf"] as const;
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    const share = state / 2 ** 32;
    return share < 0.4 ? given[Math.floor((share / 0.4) * given.length)] : (share - 0.7) * 1e3;
  };
  const sizeOf = (value: JsonNumber) => (typeof value === "number" ? Math.abs(value) : value);
  const values = graph.nodes.map(() => (seed % 4 === 0 ? null : next()));
  const flowed = run.edges.map(next);
  const grads = run.grads.map((grad) => {
    const value = next();
    return { ...grad, values: grad.values === null ? null : value, norm: sizeOf(value) };
  });
  return {
    values,
    steps,
    run: {
      ...run,
      grads,
      values: run.values.map((old, i) => (old === null ? null : flowed[i])),
      norms: flowed.map(sizeOf),
    },
  };
}

const cases = fc
  .record({
    of: fc.constantFrom(...GRAPHS.map(([name]) => name)),
    seeds: fc.array(fc.nat(1e6), { minLength: 2, maxLength: 3 }),
    situation: fc.constantFrom(...(["fine", "stops", "nan"] as const)),
    selected: fc.option(fc.nat(8)),
    cursor: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(20)),
    derivatives: fc.boolean(),
    passes: fc.boolean(),
    helps: fc.boolean(),
  })
  .map(({ of, seeds, situation, selected, ...rest }) => {
    const graph = new Map(GRAPHS).get(of) as GraphModel;
    const moments = seeds.map((seed) => momentOf(graph, seed, situation));
    const node = selected === null ? null : selected % graph.nodes.length;
    return { graph, moments, selected: node, ...rest };
  });

/** Elements as text, ignoring the order of attributes and classes, and rounding places. */
function written(of: Node): string {
  if (!(of instanceof Element)) return of.textContent ?? "";
  const attributes = Array.from(of.attributes, ({ name, value }) => {
    const sorted = name === "class" ? value.split(/\s+/).sort().join(" ") : value;
    const texts = sorted.replace(/-?\d+\.\d{6,}/g, (digits) => `${Number((+digits).toFixed(4))}`);
    return `${name}=${JSON.stringify(texts)}`;
  });
  const inside = Array.from(of.childNodes, written).join("");
  return `<${[of.localName, ...attributes.sort()].join(" ")}>${inside}</>\n`;
}

describe("a picture with other numbers", () => {
  it("is as if it were drawn from nothing", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ graph, moments, selected, cursor, derivatives, passes }) => {
        const room = { width: 1000, height: 500, derivatives };
        const first = firstScene(graph, "left", estimate, false, room);
        const drawn = moments.map(({ values, steps, run }) => {
          const nodes = graph.nodes.map((node, i) => ({ ...node, value: values[i] }));
          const recording = recordingOf(graph, steps, run);
          const progress = { recording, cursor: Math.min(cursor, steps.length) };
          const state = {
            runs: 1,
            reached: [0],
            flowed: [0],
            freed: [],
            held: run.grads,
            note: "",
          };
          const marks = { selected, derivatives, progress: passes ? progress : null };
          const seen: Marks = { ...NO_MARKS, ...seenMarks(state, graph.nodes), ...marks };
          return { graph: { ...graph, nodes }, marks: seen };
        });
        const fill = () => {
          const drawing = new Drawing({ select() {}, zoomed() {}, escape: () => false }, estimate);
          document.body.append(drawing.element);
          drawing.resize(room);
          return drawing;
        };
        const followed = fill();
        let scene = first;
        followed.show(drawn[0].graph, first);
        for (const { graph, marks } of drawn) {
          scene = renewed(scene, graph, estimate);
          followed.renew(graph, scene);
          followed.mark(marks);
          await nextFrame();
        }
        const { graph: last, marks } = drawn[drawn.length - 1];
        const anew = fill();
        anew.mark(marks);
        anew.show(last, scene);
        await nextFrame();
        expect(written(followed.element)).toBe(written(anew.element));
        for (const drawing of [followed, anew]) {
          drawing.destroy();
          drawing.element.remove();
        }
      }),
      { numRuns: 24, endOnFailure: true },
    );
  });
});

describe("a widget with other numbers", () => {
  it("is as if these were the first to come, with its bars, its legend and its panel", async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ graph, moments, selected, helps }) => {
        const fill = async () => {
          Object.assign(choices, CHOICES);
          const host = document.body.appendChild(document.createElement("div"));
          const channel = localChannel(freshTraits(graph, { direction: "left", constants: true }));
          const remove = createView(host, channel);
          await nextFrame();
          const key = new KeyboardEvent("keydown", { key: "?", bubbles: true, cancelable: true });
          if (helps) host.querySelector(".gw-canvas")?.dispatchEvent(key);
          channel.change("selected", selected);
          await nextFrame();
          return { host, channel, remove };
        };
        const update = async (to: Awaited<ReturnType<typeof fill>>, moment: Moment, at: number) => {
          const { channel } = to;
          channel.change("_update", { number: at, before: null, words: "said", changes: [] });
          channel.change("_values", moment.values);
          channel.change("cursor", moment.steps.length);
          channel.change("_steps", moment.steps);
          channel.change("run", moment.run);
          await nextFrame();
        };
        const followed = await fill();
        for (const [i, moment] of moments.entries()) await update(followed, moment, i + 1);
        const first = await fill();
        await update(first, moments[moments.length - 1], 1);
        expect(written(followed.host)).toBe(written(first.host));
        for (const { host, remove } of [followed, first]) {
          remove();
          host.remove();
        }
        Object.assign(choices, CHOICES);
      }),
      { numRuns: 12, endOnFailure: true },
    );
  });
});
