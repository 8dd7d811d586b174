import { foldedScene } from "../arrange/pipeline";
import { messageOf } from "../dom/element";
import { type GroupedGraph, groupedGraph } from "../fold/grouped_graph";
import { valueAt } from "../maps";
import { shownGraph } from "../scene/shown_graph";
import { browserMeasure, FONTS, type Measure, type Style } from "../text/measure";
import { type GraphModel, plain, type Travelled } from "../wire";
import { type Answer, type Port, piecesOf, type Request, restOf, WORKER_NAME } from "./messages";

/** Make scenes for the page until the worker is ended. */
export function serve(port: Port, measure: Measure): void {
  let given: Travelled<GraphModel>;
  /** The graph with and without constants, by either names, made on request. */
  const known = new Map<string, GroupedGraph>();
  const answer = (message: Answer, transfer: Transferable[] = []) =>
    port.postMessage(message, transfer);

  function groupedBy(constants: boolean, torchNames: boolean): GroupedGraph {
    return valueAt(known, `${constants} ${torchNames}`, () =>
      groupedGraph(shownGraph(plain(given), constants, torchNames)),
    );
  }

  port.onmessage = ({ data }: MessageEvent<Request>) => {
    if (data.kind === "graph") {
      ({ given } = data);
      known.clear();
      return;
    }
    const { request, constants, torchNames, order } = data;
    try {
      const { folding, direction, room } = order;
      const grouped = groupedBy(constants, torchNames);
      const scene = foldedScene(grouped, folding, direction, measure, { room });
      answer({ kind: "doing", request, doing: "drawing" });
      for (const [piece, points] of piecesOf(scene))
        answer({ kind: "piece", request, piece }, [points]);
      answer({ kind: "scene", request, rest: restOf(scene) });
    } catch (error) {
      answer({ kind: "fault", request, message: messageOf(error) });
    }
  };
  answer({ kind: "hello", widths: sampleWidths(measure) });
}

/** Serve if this script runs as one of our workers; returns whether it does. */
export function serveInWorker(): boolean {
  const isOurs = typeof document === "undefined" && self.name === WORKER_NAME;
  if (isOurs) serve(self as unknown as Port, browserMeasure());
  return isOurs;
}

/** How wide a sample of letters is in each style. */
export function sampleWidths(measure: Measure): number[] {
  return (Object.keys(FONTS) as Style[]).map((style) => measure("Mm(64, 3)→wil…", style));
}
