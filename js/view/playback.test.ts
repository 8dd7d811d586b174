// @vitest-environment jsdom
import { expect, it } from "vitest";
import { localChannel, type Traits } from "../channel";
import type { Drawing } from "../interact/drawing";
import { type Progress, recordingOf } from "../steps/recording";
import { testPage } from "../testing/browser";
import { fakeRun, SITUATIONS } from "../testing/fake_run";
import { MODELS } from "../testing/graphs";
import { freshTraits } from "../testing/traits";
import { Playback } from "./playback";

testPage();

const graph = MODELS["x used three times"]();

/** The nodes that the camera follows while the cursor goes to these places. */
function followed(cursors: readonly number[]): number[] {
  const { steps, run } = fakeRun(graph, SITUATIONS[0] as never);
  const recording = recordingOf(graph, steps, run);
  const nodes: number[] = [];
  const drawing = {
    scene: null,
    progress: null as Progress | null,
    stepTo: (progress: Progress | null) => Object.assign(drawing, { progress }),
    viewport: { follow: (node: number) => nodes.push(node) },
  };
  const none = () => undefined;
  const playback = new Playback(
    drawing as unknown as Drawing,
    { update: null },
    localChannel<Traits>(freshTraits(graph)),
    [],
    { drawable: () => null, show: none, recorded: none, moved: none },
  );
  for (const cursor of cursors)
    playback.follow({
      progress: { recording, cursor: cursor < 0 ? steps.length + 1 + cursor : cursor },
      playing: false,
    });
  return nodes;
}

it("follows the running node, also at the first step and at the last one", () => {
  const [first, second] = fakeRun(graph, SITUATIONS[0] as never).steps.map(({ node }) => node);
  expect(followed([1, 2])).toEqual([first, second]);
  expect(followed([-2, -1])).toHaveLength(2);
});

it("moves nothing when a pass of the program has ended", () => {
  expect(followed([-1])).toEqual([]);
  expect(followed([0, -1])).toEqual([]);
});
