import type { Work } from "../interact/fold_controller";
import { formatCount } from "../text/number";
import type { Doing } from "../worker/messages";
import type { Progress } from "./progress";

const WORDS: Record<Doing, (nodes: string) => string> = {
  layout: (nodes) => `Laying out ${nodes} nodes…`,
  drawing: (nodes) => `Drawing ${nodes} nodes…`,
};

/** Show what a pending picture waits for; null when none is pending. */
export function showWork(progress: Progress, work: Work | null, cancel: () => void): void {
  if (!work) progress.hide();
  else {
    const text = WORDS[work.doing](formatCount(work.nodes));
    progress.show(text, work.blocks ? null : cancel, work.blocks);
  }
}

/** Say that the first picture was cancelled, and offer to make it. */
export function offerWork(progress: Progress, draw: () => void): void {
  progress.offer("This graph is not drawn: its picture was cancelled.", "Draw it", draw);
}
