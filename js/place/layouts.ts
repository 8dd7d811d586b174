import { layout } from "../layout/index";
import type { ContentCache, Layout, LayoutInput, LayoutOptions } from "../layout/types";
import { perObject } from "../maps";
import type { GraphModel } from "../wire";

/** The most layouts of one choice among pictures, and of one picture. */
export const MOST_CHOOSING = 16;
export const MOST_PLACING = 6;
/** The least of a board where cards of the usual width are illegible. */
export const LEAST_SMALLEST = 8;
/** The same of one draft in a choice. */
export const MOST_DRAFTING = 6;
/** The most nodes and edges of all its layouts, and the longest time that they take, ms: then the best one so far is drawn. */
const MOST_STEPS = 20_000;
const MOST_MS = 5000;
/** The most known layouts, and the most nodes of one. */
const MOST_KNOWN = 60;
const LARGEST_KNOWN = 2000;

/** The known layouts of a graph, and a budget for more. */
class Layouts {
  /** The contents of boxes. */
  readonly contents: ContentCache = new Map();
  private readonly known = new Map<string, Layout>();
  private left = MOST_CHOOSING;
  private steps = MOST_STEPS;
  private ms = MOST_MS;

  /** Begin with so many layouts. */
  begin(most: number): void {
    this.left = most;
    this.steps = MOST_STEPS;
    this.ms = MOST_MS;
  }

  /** Have at least so many left. */
  atLeast(least: number): void {
    this.left = Math.max(this.left, least);
  }

  /** Make something with at most so many of the rest. */
  atMost<T>(most: number, make: () => T): T {
    const spared = Math.max(0, this.left - most);
    this.left -= spared;
    try {
      return make();
    } finally {
      this.left += spared;
    }
  }

  /** Whether no more should be tried. */
  get isSpent(): boolean {
    return Math.min(this.left, this.steps, this.ms) <= 0;
  }

  /** Lay out a graph. */
  of(input: LayoutInput, options: LayoutOptions): Layout {
    const key = input.n > LARGEST_KNOWN ? null : keyOf([input, options]);
    const known = key === null ? undefined : this.known.get(key);
    if (known) return known;
    const start = Date.now();
    const made = layout(input, { ...options, cache: this.contents });
    this.left--;
    this.steps -= input.n + input.source.length;
    this.ms -= Date.now() - start;
    if (this.known.size >= MOST_KNOWN) this.known.clear();
    if (key !== null) this.known.set(key, made);
    return made;
  }
}

/** The layouts of a graph. */
export const layoutsOf = perObject((_: GraphModel) => new Layouts());

/** All numbers of an input, with their names. */
function keyOf(given: object): string {
  return JSON.stringify(given, (_, value) => (ArrayBuffer.isView(value) ? String(value) : value));
}
