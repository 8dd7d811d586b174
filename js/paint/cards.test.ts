import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NO_MODULES, PLAIN_NODE } from "../demo/build_graph";
import { DIRECTIONS, type Direction, flow } from "../layout/direction";
import { MOST_CARDS } from "../scene/card";
import type { SceneNode } from "../scene/scene";
import { recordingOf } from "../steps/recording";
import { fakeRun, SITUATIONS } from "../testing/fake_run";
import { placeGradients } from "../testing/gradients";
import { graphs, MODELS } from "../testing/graphs";
import { sceneOf } from "../testing/scenes";
import { boardNumber } from "../text/gradient";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import { asAdded, roundedOf } from "./gradient_label";
import { GradientLayer, visibleGradients } from "./gradients";
import { gradientParts } from "./label_parts";
import { type Marks, NO_MARKS } from "./marks";

function placed(graph: GraphModel, direction: Direction = "left") {
  const scene = sceneOf(graph, direction);
  const { steps, run } = fakeRun(graph, SITUATIONS[0] as never);
  const recording = recordingOf(graph, steps, run);
  return { scene, steps, run, recording, labels: placeGradients(scene, recording, estimate) };
}

function sidesOf({ x, y, shape: { width, height } }: SceneNode) {
  return { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
}

describe("a card", () => {
  it("says unknown for one missing number, and scalar if the graph has none", () => {
    const graph = MODELS["h = w * x + b"]();
    const texts = (nodes: GraphModel["nodes"]) =>
      sceneOf({ ...graph, nodes }, "left").nodes.flatMap(({ shape }) =>
        shape.texts.map(({ text }) => text),
      );
    const empty = graph.nodes.map((node) => ({ ...node, value: null, shape: [] }));
    expect(texts(empty)).toContain("scalar");
    expect(texts(empty)).not.toContain("unknown");
    const known = empty.map((node, i) => (i === 0 ? { ...node, value: 3 } : node));
    expect(texts(known)).toContain("unknown");
    const made = known.map((node) => ({ ...node, in_backward: node.value === null }));
    expect(texts(made)).toContain("in backward");
    expect(texts(made)).not.toContain("unknown");
  });

  it("holds its words and its numbers", () => {
    fc.assert(
      fc.property(graphs, fc.constantFrom(...DIRECTIONS), (graph, direction) => {
        const { scene, labels } = placed(graph, direction);
        for (const { shape } of scene.nodes) {
          if (!shape.card) continue;
          for (const { text, style, x, y, anchor } of shape.texts) {
            const width = estimate(text, style);
            const start = anchor === "start" ? x : anchor === "end" ? x - width : x - width / 2;
            expect(start).toBeGreaterThanOrEqual(-shape.outerWidth / 2);
            expect(start + width).toBeLessThanOrEqual(shape.outerWidth / 2 + 0.5);
            expect(Math.abs(y)).toBeLessThan(shape.outerHeight / 2);
          }
        }
        for (const { cell, key, x, y, width, height, nodes } of labels) {
          if (!cell) continue;
          const index = scene.drawn[nodes[0]].find(
            (i) => key.startsWith("row") || key.endsWith(` ${i}`),
          );
          const { left, right, top, bottom } = sidesOf(scene.nodes[index ?? -1]);
          expect(x - width / 2).toBeGreaterThanOrEqual(left - 0.5);
          expect(x + width / 2).toBeLessThanOrEqual(right + 0.5);
          expect(y - height / 2).toBeGreaterThanOrEqual(top - 0.5);
          expect(y + height / 2).toBeLessThanOrEqual(bottom + 0.5);
        }
      }),
    );
  });

  it("says of a leaf that was changed in place what it is not", () => {
    const graph: GraphModel = {
      ...{
        static: false,
        modules: NO_MODULES,
        edges: [],
        roots: [],
        checkpoints: [],
        derivatives: [],
        ranks: null,
        plan: null,
      },
      nodes: [
        { id: 0, kind: "leaf", op: "AccumulateGrad", label: "w", ...PLAIN_NODE, changed: true },
        { id: 1, kind: "leaf", op: "AccumulateGrad", label: "b", ...PLAIN_NODE, changed: null },
      ],
    };
    graph.nodes[1].value = -2;
    const parts = sceneOf(graph).nodes.map(({ shape }) => shape.texts.map(({ text }) => text));
    expect(parts[0]).toContain("changed");
    expect(parts[1]).toContain("now −2");
  });

  it("tells a single number with its sign, within its cell up to five characters, of a large card up to six", () => {
    fc.assert(
      fc.property(graphs, fc.double({ noNaN: true, noDefaultInfinity: true }), (graph, value) => {
        const { steps, run: given } = fakeRun(graph, SITUATIONS[0] as never);
        const listed = { values: value, norm: Math.abs(value) };
        const run = {
          ...given,
          values: given.values.map(() => value),
          norms: given.norms.map(() => Math.abs(value)),
          seeds: given.seeds.map((seed) => ({ ...seed, ...listed })),
          arrived: given.arrived.map((one) => ({ ...one, ...listed })),
          grads: given.grads.map((one) => ({ ...one, ...listed })),
        };
        const recording = recordingOf(graph, steps, run);
        for (const label of placeGradients(sceneOf(graph, "left"), recording, estimate)) {
          const { cell, small, text, width } = label;
          if (cell !== "full" && cell !== "near") continue;
          if (label.none) continue;
          const whole = boardNumber(value);
          const style = cell === "full" && !small ? "number" : "digits";
          expect([whole, ...roundedOf(listed)]).toContain(text);
          const most = cell === "full" ? 6 : 5;
          if (whole.length <= most) expect(text).toBe(whole);
          if (text.length <= most) expect(estimate(text, style)).toBeLessThan(width);
        }
      }),
    );
  });

  it("has each share of a leaf in the row at which its arrow arrives", () => {
    fc.assert(
      fc.property(
        graphs,
        fc.constantFrom("left" as const, "right" as const),
        (graph, direction) => {
          const { scene } = placed(graph, direction);
          for (const { row, target, curve } of scene.edges) {
            if (row === undefined) continue;
            const node = scene.nodes[target];
            const cell = node.shape.card?.rows[row];
            expect(curve[curve.length - 1]).toBeCloseTo(node.y + (cell?.y ?? Number.NaN), 6);
          }
          for (const { rows, shape, copies } of scene.nodes) {
            if (shape.card?.rows.length && copies === 1)
              expect(rows).toHaveLength(shape.card.rows.length);
          }
        },
      ),
    );
  });

  it("has a number once: in its cell, or in rows with their sum", () => {
    const { labels, scene } = placed(MODELS["x used three times"]());
    expect(labels.filter(({ cell, local }) => cell === undefined && !local)).toEqual([]);
    const leaf = scene.nodes.find((node) => node.leaf);
    expect(leaf?.rows).toHaveLength(3);
    expect(labels.filter(({ cell }) => cell === "row")).toHaveLength(3);
    const total = labels.filter(({ nodes, cell }) => nodes[0] === leaf?.id && cell === "full");
    expect(total.filter(({ until }) => until === undefined)).toHaveLength(1);
    expect(total.filter(({ until }) => until !== undefined)).toMatchObject([{ text: "None" }]);
  });

  it("says what a .grad holds, and what that is the sum of", () => {
    const graph = MODELS["x used three times"]();
    const { recording } = placed(graph);
    const { steps, run } = recording;
    if (!run) throw new Error("The pass has no run.");
    const [grown] = run.grads;
    const value = Number(grown.values);
    const few = (one: number) => ({ values: one, norm: Math.abs(one) });
    const listed = (more: Partial<typeof grown>) => {
      const arrived = [{ node: grown.node, ...few(value) }];
      const grads = [{ ...grown, ...more }];
      const again = recordingOf(graph, steps, { ...run, arrived, grads });
      const labels = placeGradients(sceneOf(graph, "left"), again, estimate);
      const total = labels.filter(
        ({ cell, until, nodes }) => cell === "full" && nodes[0] === grown.node && !until,
      );
      return total.map(({ text, stored, changed, added }) => [text, stored, changed, added]);
    };
    const came = boardNumber(value);
    expect(listed({})).toEqual([[came, true, false, undefined]]);
    expect(listed({ before: few(2), ...few(value + 2) })).toEqual([
      [
        boardNumber(value + 2),
        true,
        false,
        expect.stringContaining(`2 ${value < 0 ? "\u2212" : "+"} ${boardNumber(Math.abs(value))}`),
      ],
    ]);
    expect(listed({ before: few(2), ...few(value + 3) })[0][3]).toBeUndefined(); // a hook changed it
    expect(listed({ changed: true, now: few(0.5) })).toEqual([["0.5", true, true, undefined]]);
    // None by now: the incoming gradient is not the `.grad`.
    expect(listed({ changed: true, now: null })).toEqual([[came, false, false, undefined]]);
  });

  it("writes the sum over a .grad, beside the word where it has room", () => {
    const graph = MODELS["h = w * x + b"]();
    const { recording } = placed(graph);
    const { steps, run } = recording;
    if (!run) throw new Error("The pass has no run.");
    const node = run.grads[0].node;
    const few = (one: number) => ({ values: one, norm: one });
    const words = (narrow: number) => {
      const arrived = [{ node, ...few(2) }];
      const grads = [{ ...run.grads[0], before: few(4), ...few(6) }];
      const again = recordingOf(graph, steps, { ...run, arrived, grads });
      const measure: typeof estimate = (text, style) => narrow * estimate(text, style);
      const labels = placeGradients(sceneOf(graph, "left"), again, measure);
      const [label] = labels.filter(({ added }) => added !== undefined);
      return gradientParts(label).map(({ content }) => content);
    };
    expect(words(0.6)).toEqual(expect.arrayContaining([".grad 4 + 2", "6"]));
    expect(words(0.9)).toEqual(expect.arrayContaining(["4 + 2", "6"]));
  });

  it("has the sign of its operation in a ring on the edge of its inputs, apart from its name", () => {
    const graph = MODELS["h = w * x + b"]();
    const nodes = graph.nodes.map((node) => ({ ...node, value: -12, shape: [] }));
    for (const direction of DIRECTIONS) {
      const scene = sceneOf({ ...graph, nodes }, direction);
      for (const { shape, leaf, quiet } of scene.nodes) {
        if (quiet) continue;
        const { sign = null, value, grad } = shape.card ?? {};
        expect(sign === null).toBe(leaf);
        if (!sign || !value || !grad) continue;
        const [dx, dy] = flow(direction);
        expect(sign.x * dx + sign.y * dy).toBeGreaterThanOrEqual(
          (dx ? shape.width : shape.height) / 2 - 0.01,
        );
        const left = sign.x + sign.width / 2;
        const text = shape.texts.find(({ text }) => text === "\u221212");
        const start = (text?.x ?? 0) - estimate("\u221212", text?.style ?? "number") / 2;
        if (direction === "left") expect(start).toBeGreaterThanOrEqual(left - 1);
        expect(value.y + value.height / 2).toBeLessThanOrEqual(shape.height / 2);
        expect(grad.x - grad.width / 2).toBeCloseTo(value.x + value.width / 2);
      }
    }
  });

  it("says once in a picture which of its numbers are values and gradients", () => {
    for (const model of ["h = w * x + b", "x used three times"]) {
      const { nodes } = sceneOf(MODELS[model](), "left");
      const texts = nodes.flatMap(({ shape, root }) => shape.texts.map(({ text }) => [text, root]));
      expect(texts.filter(([text]) => text === "value")).toEqual([["value", true]]);
      expect(texts.filter(([text]) => text === "grad")).toEqual([["grad", true]]);
    }
  });

  it("has what has arrived before its node runs, and says so", () => {
    const { labels, scene, recording } = placed(MODELS["h = w * x + b"]());
    const at = (cursor: number) => visibleGradients(labels, scene, { recording, cursor });
    const words = (cursor: number) =>
      at(cursor).flatMap((label) => gradientParts(label).map(({ content }) => content));
    // The seed of backward; leaves show their `.grad` from the start.
    expect(at(0).flatMap(({ arrived, none }) => (none ? [] : [arrived]))).toEqual([true]);
    expect(words(0)).toContain("arrived");
    expect(at(recording.steps.length).some(({ arrived }) => arrived)).toBe(false);
    expect(words(recording.steps.length)).not.toContain("arrived");
  });

  it("shows each .grad before the pass adds to it, and without a pass", () => {
    const graph = MODELS["h = w * x + b"]();
    const { recording, scene } = placed(graph);
    const { steps, run } = recording;
    if (!run) throw new Error("The pass has no run.");
    const before = { values: 0.25, norm: 0.25 };
    const [first, ...others] = run.grads;
    const grads = [{ ...first, before }, ...others];
    const again = recordingOf(graph, steps, { ...run, grads });
    const labels = placeGradients(scene, again, estimate);
    for (let cursor = 0; cursor <= steps.length; cursor++) {
      const seen = visibleGradients(labels, scene, { recording: again, cursor });
      for (const { node, before: was } of grads) {
        const listed = seen.filter(({ nodes }) => nodes[0] === node && nodes.length === 1);
        expect(listed).toHaveLength(1);
        const isNow = cursor >= again.step[node];
        expect(listed[0].stored === true).toBe(isNow || was !== null);
        if (!isNow) expect(listed[0].text).toBe(was ? "0.25" : "None");
      }
    }
    const held = new Map(grads.map(({ node }) => [node, before]));
    const rest = new GradientLayer(estimate).at(scene, { ...NO_MARKS, held });
    expect(rest.map(({ text, stored }) => [text, stored])).toEqual(grads.map(() => ["0.25", true]));
  });

  it("adds up the shares in its rows, with a sign before all but the first", () => {
    expect(["166.6", "\u221227.77", "0", "\u2016[1, 2]\u2016"].map(asAdded)).toEqual([
      "+ 166.6",
      "\u2212 27.77",
      "+ 0",
      "\u2016[1, 2]\u2016",
    ]);
    const rows = placed(MODELS["x used three times"]()).labels.filter(({ cell }) => cell === "row");
    const signed = rows.map(({ text }) => /^[+\u2212] /.test(text));
    expect(signed.filter((one) => !one)).toHaveLength(1);
  });

  it("leaves room between the words and the number of a row, which then has fewer digits", () => {
    const graph = MODELS["x used three times"]();
    const { scene, steps, run } = placed(graph);
    const node = scene.nodes.find(({ rows }) => rows);
    const values = run.values.map(() => 0.00976712);
    const recording = recordingOf(graph, steps, { ...run, values });
    const label = (words: string) => {
      if (node?.rows) node.rows = node.rows.map(() => words);
      const rows = placeGradients(scene, recording, estimate).filter(({ cell }) => cell === "row");
      return rows.find(({ text }) => text.startsWith("+")) ?? rows[0];
    };
    expect(["+ 0.009767", "+ 0.00977"]).toContain(label("w × 2").text);
    const { text, width } = label("w × 0.8");
    expect(["+ 0.00977", "+ 0.0098"]).toContain(text); // as wide as the font draws them
    const taken = estimate("w × 0.8", "cell") + estimate(text, "digits");
    expect(taken).toBeLessThan(width - 2 * 8 - 6);
  });

  it("is for small graphs, and for leaves and outputs of large ones", () => {
    const graph = MODELS["RNN, 40 steps"]();
    const { scene } = placed(graph);
    expect(scene.nodes.length).toBeGreaterThan(MOST_CARDS);
    const cards = scene.nodes.filter(({ shape }) => shape.card);
    const isEnd = ({ id, root }: { id: number; root: boolean }) =>
      root || graph.nodes[id].kind === "leaf";
    expect(cards.length).toBeGreaterThan(0);
    expect(cards.every(isEnd)).toBe(true);
  });
});

describe("local derivatives", () => {
  const shown = (graph: GraphModel, cursor: number, marks: Partial<Marks>) => {
    const { labels, scene, recording } = placed(graph);
    const seen = visibleGradients(labels, scene, { recording, cursor }, { ...NO_MARKS, ...marks });
    return seen.filter(({ local }) => local);
  };

  it("appear on all edges with the toggle, else at the running or selected node", () => {
    const graph = MODELS["h = w * x + b"]();
    const { recording } = placed(graph);
    const all = recording.steps.length;
    const every = shown(graph, all, { derivatives: true });
    expect(every.length).toBeGreaterThan(0);
    expect(every.every(({ edge }) => recording.locals.has(edge ?? -1))).toBe(true);
    expect(shown(graph, all, {})).toEqual([]);
    for (const { node } of recording.steps) {
      const own = shown(graph, all, { selected: node });
      expect(own).toEqual(every.filter(({ nodes }) => nodes.includes(node)));
    }
    recording.steps.slice(0, -1).forEach(({ node }, i) => {
      const running = shown(graph, i + 1, {}).map(({ nodes }) => nodes[0]);
      expect(running.every((id) => id === node)).toBe(true);
    });
  });

  it("multiply what arrived into what is passed on", () => {
    fc.assert(
      fc.property(graphs, (graph) => {
        const { run, locals } = placed(graph).recording;
        for (const [edge, [grad, local]] of locals) {
          const passed = run?.values[run.edges.indexOf(edge)];
          expect(grad * local).toBeCloseTo(
            Number(Array.isArray(passed) ? passed.flat(9)[0] : passed),
            6,
          );
        }
      }),
    );
  });
});
