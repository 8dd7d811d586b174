import type { Marks } from "../paint/marks";
import type { Scene, SceneNode } from "../scene/scene";
import { END, firstStop, stepOf, walk } from "./walk";

interface KeyActions {
  keyed(key: string, node: SceneNode): boolean;
  select(node: SceneNode): void;
  stopAt(index: number | null): void;
  say(words: string): void;
  escape(): void;
  zoomBy(factor: number): void;
}

const ZOOM: Readonly<Record<string, number>> = { "+": 1.4, "=": 1.4, "-": 1 / 1.4 };

export class Keyboard {
  /** The node of the last step along or against the flow, to return to. */
  private cameFrom: number | null = null;

  constructor(private readonly actions: KeyActions) {}

  /** Handle a key; false if it has no meaning here. */
  press(event: KeyboardEvent, scene: Scene, { focused, selected }: Marks): boolean {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const { actions } = this;
    const node = focused === null ? null : scene.nodes[focused];
    if (node && actions.keyed(key, node)) return true;
    const step = stepOf(key, scene.direction);
    if (step) {
      const next =
        focused === null ? firstStop(scene, selected) : walk(scene, focused, step, this.cameFrom);
      if (next === null) actions.say(END[step]);
      else {
        this.cameFrom = step === "along" || step === "against" ? focused : null;
        actions.stopAt(next);
      }
    } else if (key === "Enter" || key === " ") {
      if (node) actions.select(node);
    } else if (key === "Escape") actions.escape();
    else if (key === "Home") actions.stopAt(firstStop(scene, null));
    else if (key in ZOOM) actions.zoomBy(ZOOM[key]);
    else return false;
    return true;
  }

  forget(): void {
    this.cameFrom = null;
  }
}
