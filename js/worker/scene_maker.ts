import type { Scene } from "../scene/scene";
import type { Measure } from "../text/measure";
import {
  type Answer,
  type Doing,
  type GraphSource,
  joined,
  type Port,
  type Request,
  type SceneOrder,
  type ScenePiece,
} from "./messages";
import { sampleWidths } from "./serve";

/** The used part of a worker's interface. */
export interface SceneWorker extends Port {
  onerror: ((event: ErrorEvent) => void) | null;
  terminate(): void;
}

/** Start a worker; null or an error if that is impossible. */
export type StartWorker = () => SceneWorker | null;

export interface SceneAnswers {
  doing(doing: Doing): void;
  made(scene: Scene): void;
  /** The worker's error, a sentence. */
  failed(error: Error): void;
  /** The page has no worker and must make the scene itself. */
  unavailable(): void;
}

interface Job {
  source: GraphSource;
  order: SceneOrder;
  answers: SceneAnswers;
}

/** The number of `BEAT_MS` in which a worker must greet; only idle time of the page counts. */
const PATIENCE = 12;
const BEAT_MS = 100;
/** How long an abandoned job may continue before its worker is ended. */
const GRACE_MS = 300;

/** Make scenes in a worker, one at a time; the latest request wins. */
export class SceneMaker {
  private worker: SceneWorker | null = null;
  private ready = false;
  /** Whether a worker will never start. */
  private broken = false;
  /** The graph that the worker has. */
  private sent: unknown = null;
  /** The worker's job; its answers are ignored unless it is the `latest`. */
  private busy: Job | null = null;
  private latest: Job | null = null;
  /** The received pieces of the current scene. */
  private pieces: ScenePiece[] = [];
  /** The abandoned job that will be ended soon. */
  private overtaken: Job | null = null;
  private request = 0;
  private timer = 0;

  constructor(
    private readonly startWorker: StartWorker,
    private readonly measure: Measure,
  ) {}

  /** Start the worker before it is needed. */
  warm(): void {
    if (this.worker || this.broken) return;
    try {
      this.worker = this.startWorker();
    } catch {
      this.worker = null;
    }
    if (!this.worker) {
      this.broken = true;
      return;
    }
    this.ready = false;
    this.sent = null;
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.worker.onerror = (event) => {
      event.preventDefault?.();
      this.breakDown(event.message);
    };
    this.await(PATIENCE);
  }

  /** Whether scenes can be made in a worker, as far as is known. */
  get isAvailable(): boolean {
    this.warm();
    return !this.broken;
  }

  /** Ask for a scene. Earlier requests get no answer. */
  make(source: GraphSource, order: SceneOrder, answers: SceneAnswers): void {
    this.latest = { source, order, answers };
    if (!this.isAvailable) {
      this.giveUp();
      return;
    }
    if (!this.busy) this.next();
    else if (this.ready) this.hurry();
  }

  /** Drop the request: it gets no answer. */
  forget(): void {
    this.latest = null;
  }

  /** The same, and replace a worker that is busy with it. */
  cancel(): void {
    this.forget();
    if (!this.busy) return;
    this.stop();
    this.warm();
  }

  /** Ends the worker. */
  end(): void {
    this.forget();
    this.broken = true;
    this.stop();
  }

  private stop(): void {
    window.clearTimeout(this.timer);
    this.worker?.terminate();
    this.worker = null;
    this.busy = null;
    this.ready = false;
  }

  /** Waits for the greeting. */
  private await(beats: number): void {
    this.timer = window.setTimeout(() => {
      if (beats > 0) this.await(beats - 1);
      else this.breakDown();
    }, BEAT_MS);
  }

  /** Replace a worker that is busy with an abandoned job, and request the wanted one. */
  private hurry(): void {
    const stale = this.busy;
    if (this.overtaken === stale) return;
    this.overtaken = stale;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      if (this.busy !== stale) return;
      this.stop();
      this.warm();
    }, GRACE_MS);
  }

  private next(): void {
    const { worker, latest } = this;
    if (!worker || !this.ready || !latest) return;
    const { source, order } = latest;
    const tell = (request: Request) => worker.postMessage(request, []);
    this.busy = latest;
    this.pieces = [];
    if (this.sent !== source.given) tell({ kind: "graph", given: source.given });
    this.sent = source.given;
    const { constants, torchNames } = source;
    tell({ kind: "scene", request: ++this.request, constants, torchNames, order });
  }

  private receive(answer: Answer): void {
    if (answer.kind === "hello") {
      window.clearTimeout(this.timer);
      const { widths } = answer;
      // With other fonts than the page's, words would not fit their boxes.
      if (sampleWidths(this.measure).some((width, i) => width !== widths[i])) {
        this.breakDown();
        return;
      }
      this.ready = true;
      this.next();
      return;
    }
    const { busy } = this;
    if (!busy || answer.request !== this.request) return;
    if (answer.kind === "doing") {
      if (busy === this.latest) busy.answers.doing(answer.doing);
      return;
    }
    if (answer.kind === "piece") {
      this.pieces.push(answer.piece);
      return;
    }
    this.busy = null;
    if (busy !== this.latest) this.next();
    else if (answer.kind === "fault") {
      this.latest = null;
      busy.answers.failed(new Error(answer.message));
    } else {
      this.latest = null;
      busy.answers.made(joined(this.pieces.splice(0), answer.rest));
    }
  }

  /** A worker that never greeted will not start; one that failed reports it. */
  private breakDown(message?: string): void {
    const { busy, latest } = this;
    this.stop();
    if (!busy) {
      this.broken = true;
      this.giveUp();
      return;
    }
    this.latest = null;
    latest?.answers.failed(
      new Error(
        `The picture could not be made: ${message || "the worker that lays it out stopped"}. ` +
          "Show less at once: close some modules or hide views and transposes.",
      ),
    );
  }

  private giveUp(): void {
    const { latest } = this;
    this.latest = null;
    latest?.answers.unavailable();
  }
}
