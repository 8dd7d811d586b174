import type { Channel } from "../channel";
import { stateKey } from "../controls/legend";
import { TransportBar } from "../controls/transport_bar";
import { element } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import { MOST_CARDS } from "../scene/card";
import { isOver, runningAt } from "../steps/recording";
import { Stepper, type Stepping } from "../steps/stepping";
import type { Drawable } from "./drawable";
import { type LiveGraph, updateWords } from "./live_graph";
import type { ViewPart } from "./view_part";

interface PlaybackEvents {
  drawable(): Drawable | null;
  /** Selects a node and brings it into view. */
  show(node: number): void;
  /** Another pass is stepped through, or none; or its key changed. */
  recorded(): void;
  moved(): void;
}

/** A pass as it plays in one picture: the bar, the key of states, and the running node in view. */
export class Playback {
  readonly stepper: Stepper;
  readonly bar: TransportBar;
  readonly key = element("div");

  constructor(
    private readonly drawing: Drawing,
    private readonly live: Pick<LiveGraph, "update">,
    private readonly channel: Pick<Channel, "get" | "set" | "send">,
    private readonly parts: readonly ViewPart[],
    private readonly events: PlaybackEvents,
  ) {
    this.stepper = new Stepper(
      channel,
      (stepping) => this.follow(stepping),
      (node) => this.playedWith(node),
      (call) => this.isHidden(call),
    );
    this.bar = new TransportBar(this.stepper, events.show);
  }

  /** The node of the last step, until the pass is finished. */
  get running(): number | null {
    const { progress } = this.drawing;
    return progress && !isOver(progress) ? runningAt(progress.recording, progress.cursor) : null;
  }

  /** Show the position in the pass, and its notes. */
  update(): void {
    const { channel, events } = this;
    const graph = events.drawable()?.graph ?? null;
    const state = channel.get("state");
    const seen = graph?.static || state?.runs > 0 ? state.note : null;
    const { update } = this.live;
    const rank = channel.get("rank") ?? null;
    const { words: live, of } = this.parts.map((part) => part.note?.()).find(Boolean) ?? {
      words: update && update.words !== "" ? updateWords(update) : null,
      of: rank === null ? "live" : `rank ${rank}`,
    };
    const transport = channel.get("transport") ?? null;
    this.bar.update(this.stepper.state, { transport, graph, seen, live, of });
  }

  /** Follow the stepper: update the picture at once, and keep the running node in view. */
  follow({ progress, playing }: Omit<Stepping, "starting"> = this.stepper.state): void {
    const { drawing, events } = this;
    const before = drawing.progress;
    this.update();
    if (progress === before) return;
    const isSame = progress?.recording === before?.recording;
    const distance = (progress?.cursor ?? 0) - (before?.cursor ?? 0);
    drawing.stepTo(progress, isSame && (distance === 1 || (playing && distance > 0)));
    const isOnItsWay =
      progress !== null && progress.recording.steps.length > 0 && !isOver(progress);
    const hasKey = this.key.childElementCount > 0;
    if (isOnItsWay !== hasKey) this.key.replaceChildren(...(isOnItsWay ? [stateKey()] : []));
    if (isOnItsWay !== hasKey || progress?.recording !== before?.recording) events.recorded();
    events.moved();
    const running = progress && runningAt(progress.recording, progress.cursor);
    // A pass that runs elsewhere to its end moves nothing.
    const isStep = isSame && Math.abs(distance) === 1;
    if (running !== null && (isOnItsWay || isStep)) drawing.viewport.follow(running);
  }

  /** Whether a call is in the same closed box as its node. */
  private isHidden(call: number): boolean {
    const { scene } = this.drawing;
    const inside = this.events.drawable()?.graph.nodes[call].inside ?? null;
    if (!scene || inside === null) return false;
    const [[index = -1] = [], [around] = []] = [scene.drawn[call], scene.drawn[inside]];
    return index === around && scene.nodes[index]?.group !== undefined;
  }

  /** In a large picture, the group to play in one go: a node's closed box, else its module. */
  private playedWith(node: number): string | null {
    const { scene } = this.drawing;
    const graph = this.events.drawable()?.graph;
    if (!scene || (graph?.nodes.length ?? 0) <= MOST_CARDS) return null;
    const [index] = scene.drawn[node] ?? [];
    return scene.nodes[index]?.group?.paths[0] ?? graph?.nodes[node].namespace ?? null;
  }
}
