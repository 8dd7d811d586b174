import type { Traits } from "../channel";
import type { Shell } from "../controls/shell";
import type { LiveGraph } from "../experiments/live_graph";

export interface Following {
  /** Call a function when a trait changes, unless a whole update is being taken. */
  on(trait: keyof Traits, changed: () => void): void;
  /** What is shown at once or, while an update is taken, once at its end. */
  part(show: () => void): () => void;
  /** Takes an update once the traits that came with it are there. */
  take(): void;
}

/**
 * Follows the traits: each change at once, and an update, which changes many, once all have come. `updated` shows what the
 * update changed.
 */
export function createFollowing(
  shell: Shell<Traits>,
  live: LiveGraph,
  updated: () => void,
): Following {
  /** Whether an update is about to be taken. */
  let isTaking = false;
  /** What is shown anew once it is taken, each part once; null while none is. */
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
