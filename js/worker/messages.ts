import type { Folding } from "../fold/folding";
import type { Direction } from "../layout/direction";
import type { Size } from "../scene/views";
import type { GraphModel, Travelled } from "../wire";
import type { ScenePiece, SceneRest } from "./pieces";

/** The drawn version of a graph, and its names. */
interface ShownAs {
  constants: boolean;
  /** Whether operations have torch's names instead of a board's. */
  torchNames: boolean;
}

export interface GraphSource extends ShownAs {
  given: Travelled<GraphModel>;
}

/** The inputs of a scene besides the graph. */
export interface SceneOrder {
  folding: Folding;
  direction: Direction;
  room: Size;
}

/** The page's messages to the worker: the graph once, then a request per picture. */
export type Request =
  | { kind: "graph"; given: Travelled<GraphModel> }
  | ({ kind: "scene"; request: number; order: SceneOrder } & ShownAs);

export type Doing = "layout" | "drawing";

/** The worker's messages; pieces come before their scene. `widths` of samples show whether its fonts are the page's. */
export type Answer =
  | { kind: "hello"; widths: number[] }
  | { kind: "doing"; request: number; doing: Doing }
  | { kind: "piece"; request: number; piece: ScenePiece }
  | { kind: "scene"; request: number; rest: SceneRest }
  | { kind: "fault"; request: number; message: string };

/** One end of the connection between the page and the worker. */
export interface Port {
  postMessage(message: unknown, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

/** This name identifies our workers, because they run the widget's script. */
export const WORKER_NAME = "gradwalk scenes";
