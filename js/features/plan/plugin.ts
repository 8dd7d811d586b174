import { COLOUR_MODES } from "../../colours/colouring";
import type { Scene } from "../../scene/scene";
import { VIEW_PARTS } from "../../view/view_part";
import type { PlanModel } from "../../wire";
import { MemoryCurve } from "./curve";
import { byFlops } from "./flops";

COLOUR_MODES.push({
  name: "flops",
  text: "FLOPs",
  missing: "of a plan",
  known: ({ graph }) => graph?.plan ?? null,
  colour: (scene: Scene, plan: PlanModel) => byFlops(scene, plan),
});

/** The memory curve of a planned step, below the stepping bar. */
VIEW_PARTS.push(({ drawing, graph, goTo }) => {
  const curve = new MemoryCurve(goTo);
  return {
    strip: curve.element,
    update: () => curve.show(graph()?.plan ?? null),
    stepped() {
      const { recording, cursor } = drawing.progress ?? { recording: null, cursor: 0 };
      const step = recording?.steps[cursor - 1];
      if (step) curve.follow(step.node);
    },
  };
});
