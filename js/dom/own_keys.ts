import type { Cleanup } from "./element";

/** What a key does; false if it was not meant. */
type Keys = Readonly<Record<string, () => unknown>>;

/**
 * Keeps the keys that are pressed in an element from the notebook, which would take them for commands, and lets some of
 * them do something, except where somebody types.
 *
 * Shortcuts with ctrl, meta or alt, and function keys, are the host's: VS Code hears them at the window only. JupyterLab
 * and Notebook 7 pass them over because of `KEEP_KEYS`.
 */
export function ownKeys(root: HTMLElement, keys: Keys, cleanup: Cleanup): void {
  for (const type of ["keydown", "keyup", "keypress"])
    cleanup.listen<KeyboardEvent>(root, type, (event) => {
      if (isShortcut(event)) return;
      event.stopPropagation();
      if (type !== "keydown" || event.defaultPrevented) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test((event.target as Element).tagName)) return;
      if (Object.hasOwn(keys, event.key) && keys[event.key]() !== false) event.preventDefault();
    });
}

function isShortcut({ key, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  return ctrlKey || metaKey || altKey || /^F\d+$/.test(key);
}
