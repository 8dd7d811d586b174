import type { Channel } from "../channel";
import type { GraphModel } from "../wire";
import {
  backwardCursor,
  type Progress,
  type Recording,
  recordingOf,
  shownCursor,
} from "./recording";

/** Between two steps while playing at speed 1. */
const PLAY_MS = 700;
/** A start without an answer for this long may be lost, and can be requested again. */
const PATIENCE_MS = 10_000;

/** The run and its cursor, for the bar and the drawing. */
export interface Stepping {
  /** Null when no backward is recorded. */
  progress: Progress | null;
  playing: boolean;
  /** Whether a backward was requested and Python has not answered. */
  starting: boolean;
}

/** Move the cursor here at once, and in Python at most once per frame. Here it also counts calls inside open nodes. */
export class Stepper {
  /** The playing speed. */
  speed = 1;
  state: Stepping = { progress: null, playing: false, starting: false };
  private graph: GraphModel | null = null;
  private request = 0;
  /** The cursor to send to Python; null if sent. */
  private unsent: number | null = null;
  private playTimer = 0;
  private startTimer = 0;
  private isLate = false;

  constructor(
    private readonly channel: Pick<Channel, "get" | "set" | "send">,
    private readonly changed: (state: Stepping) => void,
    /** The group of a node that is played in one go; null for none. */
    private readonly moduleOf: (node: number) => string | null = () => null,
    /** Whether a call is hidden with its node in a closed box; stepping skips it. */
    private readonly isHidden: (call: number) => boolean = () => false,
  ) {}

  /** Read the run again, after the graph, the steps or the gradients changed. */
  read(graph: GraphModel | null): void {
    this.graph = graph;
    this.pause();
    this.forgetMove();
    const recording = this.readRecording();
    const progress = recording && { recording, cursor: this.cursorIn(recording) };
    this.update({ progress, starting: false });
  }

  follow(): void {
    const { progress } = this.state;
    if (!progress || this.unsent !== null) return;
    const wanted = this.cursorIn(progress.recording);
    if (wanted === progress.cursor) return;
    this.pause();
    this.update({ progress: { ...progress, cursor: wanted }, starting: false });
  }

  /** Python answered; a requested start is over. */
  answered(): void {
    if (this.state.starting) this.update({ starting: false });
  }

  go(cursor: number): void {
    this.pause();
    this.move(cursor);
  }

  /** Go one step forward or back; without a run, start one. */
  by(way: 1 | -1): void {
    const { progress } = this.state;
    if (progress && this.hasSteps) this.go(this.beside(progress, way));
    else if (way > 0) this.start(way);
  }

  toStart(): void {
    if (this.state.progress) this.go(0);
  }

  toEnd(): void {
    const { progress } = this.state;
    if (progress && this.hasSteps) this.go(progress.recording.steps.length);
    else this.start(null);
  }

  /** Play, from the beginning if at the end; or pause. */
  togglePlay(): void {
    const { progress, playing } = this.state;
    if (playing || !progress || !this.hasSteps) {
      this.pause();
      return;
    }
    this.update({ playing: true });
    if (progress.cursor >= progress.recording.steps.length) this.move(0);
    this.tickLater();
  }

  destroy(): void {
    cancelAnimationFrame(this.request);
    window.clearTimeout(this.playTimer);
    window.clearTimeout(this.startTimer);
  }

  /** A run that stopped before its first step has marks, but no steps. */
  private get hasSteps(): boolean {
    return (this.state.progress?.recording.steps.length ?? 0) > 0;
  }

  private tick(): void {
    const { progress } = this.state;
    if (!progress) return;
    const next = this.nextStop(progress);
    this.move(next);
    if (next >= progress.recording.steps.length) this.pause();
    else this.tickLater();
  }

  private tickLater(): void {
    this.playTimer = window.setTimeout(() => this.tick(), PLAY_MS / this.speed);
  }

  /** One step forward or back, past hidden calls. */
  private beside({ recording: { steps }, cursor }: Progress, way: 1 | -1): number {
    let next = cursor + way;
    const isPassed = () => steps[next - 1]?.inner > 0 && this.isHidden(steps[next - 1].node);
    while (isPassed()) next += way;
    return next;
  }

  /** After the next step, and the following ones of its group. */
  private nextStop(progress: Progress): number {
    const { steps } = progress.recording;
    let next = this.beside(progress, 1);
    const module = steps[next - 1] ? this.moduleOf(steps[next - 1].node) : null;
    while (module !== null && next < steps.length && this.moduleOf(steps[next].node) === module)
      next++;
    return next;
  }

  private pause(): void {
    window.clearTimeout(this.playTimer);
    if (this.state.playing) this.update({ playing: false });
  }

  private start(cursor: number | null): void {
    if (this.state.starting && !this.isLate) return;
    if ((this.channel.get("transport")?.blocked ?? null) !== null) return;
    this.update({ starting: true });
    window.clearTimeout(this.startTimer);
    this.isLate = false;
    this.startTimer = window.setTimeout(() => {
      this.isLate = true;
    }, PATIENCE_MS);
    this.channel.send({ kind: "start", cursor }, () => this.answered());
  }

  private move(cursor: number): void {
    const { progress } = this.state;
    if (!progress) return;
    const wanted = this.within(cursor, progress.recording);
    if (wanted === progress.cursor) return;
    this.unsent = wanted;
    this.update({ progress: { ...progress, cursor: wanted } });
    if (this.request) return;
    this.request = requestAnimationFrame(() => {
      this.request = 0;
      const { unsent } = this;
      if (unsent !== null) this.tell(progress.recording, unsent);
      this.unsent = null;
    });
  }

  /** Send the position to Python: first the one within the step, which only applies to that step. */
  private tell(recording: Recording, wanted: number): void {
    const { channel } = this;
    const [cursor, inner] = backwardCursor(recording, wanted);
    const [, before = 0] = channel.get("_inner") ?? [];
    if (inner > 0 || before > 0) channel.set("_inner", [cursor, inner]);
    channel.set("cursor", cursor);
  }

  /** Python's position. */
  private cursorIn(recording: Recording): number {
    const cursor = this.channel.get("cursor");
    const [step = 0, inner = 0] = this.channel.get("_inner") ?? [];
    return shownCursor(recording, cursor, step === cursor ? inner : 0);
  }

  private forgetMove(): void {
    cancelAnimationFrame(this.request);
    this.request = 0;
    this.unsent = null;
  }

  private within(cursor: number, { steps }: Recording): number {
    return Number.isInteger(cursor) ? Math.max(0, Math.min(steps.length, cursor)) : 0;
  }

  private readRecording(): Recording | null {
    const { graph, channel } = this;
    if (!graph) return null;
    const [steps, run] = [channel.get("_steps"), channel.get("run")];
    if (steps.length === 0 && (run?.marks ?? []).length === 0) return null;
    return recordingOf(graph, steps, run);
  }

  private update(change: Partial<Stepping>): void {
    this.state = { ...this.state, ...change };
    this.changed(this.state);
  }
}
