import { readFileSync } from "node:fs";
import { bestDirection, firstScene } from "../fold/first_scene";
import { asDirection } from "../layout/direction";
import { placeGradients } from "../paint/gradients";
import { shownGraph } from "../scene/shown_graph";
import { recordingOf } from "../steps/recording";
import { tableMeasure } from "../text/metrics";
import type { GraphModel, RunModel, StepModel } from "../wire";
import { chipFaults } from "./chips";

/** A graph with the pass through it, as Python has them. */
interface Given {
  graph: GraphModel;
  steps: StepModel[];
  run: RunModel;
  widths: number[];
}

/** Reads a graph from standard input, and writes what is wrong with the places of its numbers, and how many there are. */
const { graph: given, steps, run, widths }: Given = JSON.parse(readFileSync(0, "utf8"));
const graph = shownGraph(given, true);
const recording = recordingOf(shownGraph(given, false), steps, run);
const found = widths.flatMap((width) =>
  [false, true].map((derivatives) => {
    const page = { width, height: 700, derivatives };
    const direction = asDirection("auto", () => bestDirection(graph, page, tableMeasure));
    const scene = firstScene(graph, direction, tableMeasure, false, page);
    const labels = placeGradients(scene, recording, tableMeasure);
    return { width, derivatives, numbers: labels.length, faults: chipFaults(scene, labels) };
  }),
);
process.stdout.write(JSON.stringify(found));
