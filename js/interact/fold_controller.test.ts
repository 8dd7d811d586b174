// @vitest-environment jsdom
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Builder } from "../demo/build_graph";
import type { Scene } from "../scene/scene";
import { heldView } from "../scene/views";
import { estimate } from "../text/measure";
import type { GraphModel } from "../wire";
import type { SceneAnswers, SceneMaker } from "../worker/scene_maker";
import type { Drawing } from "./drawing";
import { FoldController, MOST_AT_ONCE } from "./fold_controller";

const number = fc.integer({ min: -5000, max: 5000 });
const point = fc.tuple(number, number);
const views = fc.record({ k: fc.constantFrom(0.1, 0.5, 1, 2), x: number, y: number });

describe("a held place", () => {
  it("is seen where it was, at the same scale", () => {
    fc.assert(
      fc.property(views, point, point, (view, from, to) => {
        const held = heldView(view, { from, to });
        expect(held.k).toBe(view.k);
        expect(held.k * to[0] + held.x).toBeCloseTo(view.k * from[0] + view.x);
        expect(held.k * to[1] + held.y).toBeCloseTo(view.k * from[1] + view.y);
      }),
    );
  });
});

describe("an update of a graph that a worker draws", () => {
  /** A module of many operations, after some leaves. */
  const graphOf = (leaves: number): GraphModel => {
    const g = new Builder();
    let x = g.leaf("x", [4]);
    for (let i = 1; i < leaves; i++) x = g.op("AddBackward0", [4], { self: x, other: x });
    g.namespace = "net";
    for (let i = 0; i <= MOST_AT_ONCE; i++) x = g.op("SinBackward0", [4], { self: x });
    return g.graph([x, "loss"]);
  };
  /** A scene with a node for each operation. */
  const sceneOf = ({ nodes }: GraphModel) =>
    ({
      ...{ width: 100, height: 100, direction: "left", frames: [], edges: [] },
      nodes: nodes.map(({ id }) => ({ id, index: id, x: 10 * id, y: 0, shape: { texts: [] } })),
      drawn: nodes.map(({ id }) => [id]),
    }) as unknown as Scene;

  function controller() {
    const calls: [name: string, was?: readonly (number | null)[]][] = [];
    const answers: SceneAnswers[] = [];
    const drawing = {
      scene: null as Scene | null,
      viewport: { stage: { width: 1000, height: 600 }, view: { k: 1, x: 0, y: 0 } },
      show(_: GraphModel, scene: Scene) {
        calls.push(["show"]);
        drawing.scene = scene;
      },
      replace(scene: Scene) {
        calls.push(["replace"]);
        drawing.scene = scene;
      },
      become(_: GraphModel, scene: Scene, hold: unknown, was: readonly (number | null)[]) {
        expect(hold).not.toBeNull();
        calls.push(["become", was]);
        drawing.scene = scene;
      },
      renew: () => calls.push(["renew"]),
    };
    const maker = {
      warm() {},
      forget() {},
      make: (_: unknown, __: unknown, answer: SceneAnswers) => answers.push(answer),
    };
    const nothing = () => undefined;
    const folds = new FoldController(
      drawing as unknown as Drawing,
      estimate,
      maker as unknown as SceneMaker,
      { changed: nothing, shown: nothing, working: nothing, gaveUp: nothing, failed: nothing },
    );
    return { folds, calls, answers };
  }

  it("keeps what is open and held, also after another update while it is made", () => {
    const { folds, calls, answers } = controller();
    const [first, second, third] = [1, 2, 3].map(graphOf);
    const source = (given: GraphModel) => ({ given, constants: true, torchNames: false }) as never;
    folds.show(first, "left", first, source(first));
    folds.change((folding) => ({ ...folding, open: new Set(["net"]) }));
    answers[0].made(sceneOf(first));
    expect(calls.map(([name]) => name)).toEqual(["show", "replace"]);
    const one = second.nodes.map(({ id }) => (id === 0 ? 0 : id === 1 ? null : id - 1));
    folds.follow(second, second, source(second), one);
    const two = third.nodes.map(({ id }) => (id < 2 ? id : id === 2 ? null : id - 1));
    folds.follow(third, third, source(third), two);
    expect(folds.folding?.open).toEqual(new Set(["net"]));
    answers[2].made(sceneOf(third));
    const since = third.nodes.map(({ id }) => (id === 0 ? 0 : id < 3 ? null : id - 2));
    expect(calls[2]).toEqual(["become", since]);
    folds.follow({ ...third }, third, source(third), null);
    expect(calls[3]).toEqual(["renew"]);
  });
});
