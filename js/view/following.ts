import type { Traits } from "../channel";
import type { Shell } from "../controls/shell";
import type { LiveGraph } from "./live_graph";

export interface Following {
  /** Call a function when a trait changes, unless a whole update is being taken. */
  on(trait: keyof Traits, changed: () => void): void;
  /** Return a function that shows a part at once or, during an update, once at its end. */
  part(show: () => void): () => void;
  /** Take an update once all its traits have arrived. */
  take(): void;
}

/** Follow the traits: each change at once, but an update once it is complete. `updated` shows its changes. */
export function createFollowing(
  shell: Shell<Traits>,
  live: LiveGraph,
  updated: () => void,
): Following {
  /** Whether an update is about to be taken. */
  let isTaking = false;
  /** The parts to show after the update; null outside of one. */
  let parts: Set<() => void> | null = null;

  function take(): void {
    if (isTaking) return;
    isTaking = true;
    queueMicrotask(() => {
      isTaking = false;
      if (!shell.root.isConnected && !live.isBehind) return;
      parts = new Set();
      updated();
      const shown = parts;
      parts = null;
      for (const part of shown) part();
    });
  }

  return {
    on(trait, changed) {
      shell.on(trait, () => (live.isBehind ? take() : changed()));
    },
    part(show) {
      const part = shell.guarded(show);
      return () => (parts ? parts.add(part) : part());
    },
    take,
  };
}
