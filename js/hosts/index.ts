import { colab } from "./colab";
import type { Host, Theme } from "./host";
import { jupyterlab } from "./jupyterlab";
import { marimo } from "./marimo";
import { vscode } from "./vscode";

export type { Theme };

/** All known hosts. A page may carry the marks of several; the first one decides. */
const HOSTS: readonly Host[] = [jupyterlab, marimo, colab, vscode];

const MARKS = HOSTS.flatMap(({ marks = [] }) => marks);

/** The attributes that state a theme. */
export const THEME_ATTRIBUTES = [...new Set(MARKS.map(({ attribute }) => attribute))];

/** The theme that the page states; null if it states none. */
export function statedTheme(): Theme | null {
  const { body, documentElement: html } = document;
  for (const { on, attribute, theme } of MARKS) {
    const value = (on === "body" ? body : html).getAttribute(attribute);
    const stated = value === null ? null : theme(value);
    if (stated) return stated;
  }
  return null;
}

/** Attributes for every focusable element, so that hosts leave its keys alone. */
export const KEEP_KEYS: Readonly<Record<string, string>> = Object.assign(
  {},
  ...HOSTS.map(({ keepKeys }) => keepKeys),
);

/** What hosts say about a kernel. */
export const KERNELS = HOSTS.flatMap(({ kernel }) => kernel ?? []);

/** Return the callbacks of a message for all hosts. marimo calls them as a function once the message has been sent. */
export function callbacks(done: () => void): object {
  return Object.assign(() => {}, ...HOSTS.map((host) => host.callbacks?.(done)));
}

/** Prepare the hosts for the end of a widget. */
export function ending(el: HTMLElement): void {
  for (const host of HOSTS) host.ending?.(el);
}
