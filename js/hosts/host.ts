export type Theme = "light" | "dark";

/** An attribute in which a host states the theme of its page. */
interface ThemeMark {
  on: "html" | "body";
  attribute: string;
  /** The theme of its value; null if it states none. */
  theme(value: string): Theme | null;
}

/** What gradwalk knows about a program that shows notebooks. */
export interface Host {
  readonly marks?: readonly ThemeMark[];
  /** For focusable elements, so that the host leaves their keys alone. */
  readonly keepKeys?: Readonly<Record<string, string>>;
  /** The host's news of the widget's kernel: gone, or there again. */
  readonly kernel?: {
    /** A selector of the elements around a view without a kernel. */
    readonly gone: string;
    /** An event of the model, and whether the view that hears it has a kernel. */
    readonly event: string;
    isLive(view: unknown): boolean | undefined;
  };
  /** The callbacks of a message in the host's form; `done`: Python has finished. */
  callbacks?(done: () => void): object;
  /** A widget is about to end. */
  ending?(el: HTMLElement): void;
}

/** Read an attribute that is the theme's name. */
export function named(value: string): Theme | null {
  return value === "dark" || value === "light" ? value : null;
}
