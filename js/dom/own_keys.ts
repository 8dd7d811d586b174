import type { Cleanup } from "./element";

/** What a key does; false if it was not meant. */
type Keys = Readonly<Record<string, () => unknown>>;

/**
 * Keeps the keys that are pressed in an element from the notebook, which would take them for commands, and lets some of
 * them do something, except where somebody types.
 */
export function ownKeys(root: HTMLElement, keys: Keys, cleanup: Cleanup): void {
  cleanup.listen<KeyboardEvent>(root, "keydown", (event) => {
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test((event.target as Element).tagName)) return;
    if (Object.hasOwn(keys, event.key) && keys[event.key]() !== false) event.preventDefault();
  });
  for (const type of ["keyup", "keypress"])
    cleanup.listen(root, type, (event) => event.stopPropagation());
}
