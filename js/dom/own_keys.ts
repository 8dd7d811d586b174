import type { Cleanup } from "./element";

/** A key's action; false if it did not apply. */
type Keys = Readonly<Record<string, () => unknown>>;

/**
 * Keep an element's keys from the notebook, which would take them as commands, and run some of them, except while the
 * reader types. Shortcuts with ctrl, meta or alt and function keys belong to the host: VS Code hears them at the window
 * only. JupyterLab and Notebook 7 ignore them because of `KEEP_KEYS`.
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
