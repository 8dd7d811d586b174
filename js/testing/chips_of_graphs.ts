import { bestDirection, firstScene } from "../arrange/first_view";
import { asDirection } from "../layout/direction";
import { shownGraph } from "../scene/shown_graph";
import { recordingOf } from "../steps/recording";
import { tableMeasure } from "../text/metrics";
import type { GraphModel, RunModel, StepModel } from "../wire";
import { chipFaults } from "./chips";
import { placeGradients } from "./gradients";

/** A graph with its pass, as Python sends them. */
interface Given {
  graph: GraphModel;
  steps: StepModel[];
  run: RunModel;
  widths: number[];
}

/** The defects of a graph's numbers at each width, and the count of numbers. */
export function chipsOf({ graph: given, steps, run, widths }: Given) {
  const graph = shownGraph(given, true);
  const recording = recordingOf(shownGraph(given, false), steps, run);
  return widths.flatMap((width) =>
    [false, true].map((derivatives) => {
      const page = { width, height: 700, derivatives };
      const direction = asDirection("auto", () => bestDirection(graph, page, tableMeasure));
      const scene = firstScene(graph, direction, tableMeasure, false, page);
      const labels = placeGradients(scene, recording, tableMeasure);
      return { width, derivatives, numbers: labels.length, faults: chipFaults(scene, labels) };
    }),
  );
}
