import { element } from "../dom/element";
import { isOver, type Progress, stateAt } from "../steps/recording";
import { describeState } from "../steps/words";

/** The state of the node in the recorded pass; null without one. */
export function stateBadge(progress: Progress | null, id: number): HTMLElement | null {
  if (!progress || progress.recording.steps.length === 0) return null;
  const found = stateAt(progress.recording, id, progress.cursor);
  const state = found === "running" && isOver(progress) ? "done" : found;
  return element(
    "p",
    { class: `gw-state is-${state.replace(" ", "-")}`, "data-section": "state" },
    describeState(progress, id),
  );
}
