import type { Recording } from "../../steps/recording";
import { VIEW_PARTS } from "../../view/view_part";
import { MemoryCurve } from "./curve";
import "./still";

/** The memory curve of a planned step, below the stepping bar. */
VIEW_PARTS.push(({ channel, drawing, graph, goTo }) => {
  const curve = new MemoryCurve((node, isBackward) => {
    const recording = drawing.progress?.recording;
    const step = isBackward && recording ? stepsOf(recording).get(node) : undefined;
    if (step !== undefined) channel.set("cursor", step);
    goTo(node);
  });
  let cursor = 0; // at first the marker is at the peak
  return {
    strip: curve.element,
    update: () => curve.show(graph()?.plan ?? null),
    stepped() {
      const { progress } = drawing;
      if (!progress || progress.cursor === cursor) return;
      cursor = progress.cursor;
      curve.follow(cursor, stepsOf(progress.recording));
    },
  };
});

/** The step of each node that ran. */
function stepsOf({ steps }: Recording): Map<number, number> {
  return new Map(steps.map(({ node, step }) => [node, step]));
}
