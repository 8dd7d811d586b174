import type { Channel } from "../channel";
import type { GraphModel } from "../wire";
import { type Progress, type Recording, recordingOf } from "./recording";

/** Between two steps while playing at speed 1. */
const PLAY_MS = 700;
/** A start that Python has not answered for so long may have been lost: it can be asked for again. */
const PATIENCE_MS = 10_000;

/** What the bar and the drawing need to know of the run and of where its cursor is. */
export interface Stepping {
  /** Null when no backward is recorded. */
  progress: Progress | null;
  playing: boolean;
  /** Whether Python was asked for a backward and has not answered. */
  starting: boolean;
}

/** Moves the cursor here at once and in Python at most once per frame. */
export class Stepper {
  /** How fast it plays; 1 unless the reader asks for another. */
  speed = 1;
  state: Stepping = { progress: null, playing: false, starting: false };
  private graph: GraphModel | null = null;
  private request = 0;
  /** The cursor that Python is about to be told; null when it knows. */
  private unsent: number | null = null;
  private playTimer = 0;
  private startTimer = 0;
  private isLate = false;

  constructor(
    private readonly channel: Pick<Channel, "get" | "set" | "send">,
    private readonly changed: (state: Stepping) => void,
    /** What a node belongs to that is played in one go; null for nothing. */
    private readonly moduleOf: (node: number) => string | null = () => null,
  ) {}

  /** Reads the run anew: the graph, the steps or what flowed in them changed. */
  read(graph: GraphModel | null): void {
    this.graph = graph;
    this.pause();
    this.forgetMove();
    const recording = this.readRecording();
    const progress = recording && {
      recording,
      cursor: this.within(this.channel.get("cursor"), recording),
    };
    this.update({ progress, starting: false });
  }

  /** The cursor changed, here, in another view or in Python. */
  follow(): void {
    const { progress } = this.state;
    const cursor = this.channel.get("cursor");
    if (!progress || this.unsent !== null) return;
    const wanted = this.within(cursor, progress.recording);
    if (wanted === progress.cursor) return;
    this.pause();
    this.update({ progress: { ...progress, cursor: wanted }, starting: false });
  }

  /** Python answered something: a start that was asked for is over. */
  answered(): void {
    if (this.state.starting) this.update({ starting: false });
  }

  /** Puts the cursor after so many steps; with no run yet, starts one. */
  go(cursor: number): void {
    this.pause();
    this.move(cursor);
  }

  /** The same by a number of steps. */
  by(steps: number): void {
    const { progress } = this.state;
    if (this.hasSteps) this.go((progress?.cursor ?? 0) + steps);
    else if (steps > 0) this.start(steps);
  }

  toStart(): void {
    if (this.state.progress) this.go(0);
  }

  toEnd(): void {
    const { progress } = this.state;
    if (progress && this.hasSteps) this.go(progress.recording.steps.length);
    else this.start(null);
  }

  /** Plays on, from the beginning if it is at the end; or pauses. */
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

  /** After the next step, and after those behind it that are in the same module. */
  private nextStop({ recording: { steps }, cursor }: Progress): number {
    const module = steps[cursor] ? this.moduleOf(steps[cursor].node) : null;
    let next = cursor + 1;
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
      this.unsent = null;
      if (unsent !== null) this.channel.set("cursor", unsent);
    });
  }

  private forgetMove(): void {
    cancelAnimationFrame(this.request);
    this.request = 0;
    this.unsent = null;
  }

  private within(cursor: unknown, { steps }: Recording): number {
    return Number.isInteger(cursor) ? Math.max(0, Math.min(steps.length, cursor as number)) : 0;
  }

  private readRecording(): Recording | null {
    const { graph, channel } = this;
    if (!graph) return null;
    const [steps, run] = [channel.get("steps"), channel.get("run")];
    if (steps.length === 0 && (run?.marks ?? []).length === 0) return null;
    return recordingOf(graph, steps, run);
  }

  private update(change: Partial<Stepping>): void {
    this.state = { ...this.state, ...change };
    this.changed(this.state);
  }
}
