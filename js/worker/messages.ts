import type { Folding } from "../fold/folding";
import type { Direction } from "../layout/direction";
import type { Size } from "../scene/views";
import type { GraphModel, Travelled } from "../wire";
import type { ScenePiece, SceneRest } from "./pieces";

/** What of a graph is drawn, and by which names. */
interface ShownAs {
  constants: boolean;
  /** Whether operations have torch's names rather than a board's. */
  torchNames: boolean;
}

/** A graph as it came from Python, and what of it is drawn. */
export interface GraphSource extends ShownAs {
  given: Travelled<GraphModel>;
}

/** All that a scene depends on, but for the graph. */
export interface SceneOrder {
  folding: Folding;
  direction: Direction;
  /** The window that it is to fill. */
  room: Size;
}

/** What the page tells the worker: the graph once, then a request for each picture. */
export type Request =
  | { kind: "graph"; given: Travelled<GraphModel> }
  | ({ kind: "scene"; request: number; order: SceneOrder } & ShownAs);

/** What the worker is doing. */
export type Doing = "layout" | "drawing";

/** The worker's messages; pieces come before their scene. `widths` of samples show whether its fonts are the page's. */
export type Answer =
  | { kind: "hello"; widths: number[] }
  | { kind: "doing"; request: number; doing: Doing }
  | { kind: "piece"; request: number; piece: ScenePiece }
  | { kind: "scene"; request: number; rest: SceneRest }
  | { kind: "fault"; request: number; message: string };

/** One end of the line between the page and the worker. */
export interface Port {
  postMessage(message: unknown, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/** By its name a worker knows that it is ours: the same text is the widget's module. */
export const WORKER_NAME = "gradwalk scenes";
