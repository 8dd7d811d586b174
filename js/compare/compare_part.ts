import type { Channel, Settable } from "../channel";
import type { Marks } from "../paint/marks";
import type { Scene } from "../scene/scene";
import type { CompareTraits } from "../wire";
import type { Pane } from "./united";

export type CompareChannel = Channel<CompareTraits, Settable & keyof CompareTraits>;

/** The part of a feature in a comparison: a table, and what it draws in the panes. */
export interface ComparePart {
  /** The table. */
  readonly element: HTMLElement;
  /** Show the traits, before the panes are drawn. */
  update(): void;
  select?(place: number | null): void;
  /** Words for signs at places. */
  signs?(): ReadonlyMap<number, string>;
  /** Signs over a pane, and the colours of its nodes; null for none. */
  paint?(pane: Pane, scene: Scene): { signs: SVGElement[]; tint: Marks["tint"] } | null;
  legend?(): HTMLElement[];
}

/** What features add to a comparison. `choose` selects a place and brings it into view. */
export const COMPARE_PARTS: ((
  channel: CompareChannel,
  choose: (place: number) => void,
) => ComparePart)[] = [];
