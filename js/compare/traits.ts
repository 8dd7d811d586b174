import type { Channel, Settable } from "../channel";
import type { Direction } from "../layout/direction";
import type { DetailsModel, LeafTableModel, MergedStepModel, PaneModel, PassModel } from "../wire";

/** What Python and the browser share of a comparison, by trait name. */
export interface CompareTraits {
  panes: PaneModel[];
  /** For each node of all graphs laid on top of each other its number in each graph, or null. */
  members: (number | null)[][];
  /** A place in `members`. */
  selected: number | null;
  /** One per pane; null where the selected node is not. */
  details: (DetailsModel | null)[];
  /** One per pane. */
  passes: PassModel[];
  steps: MergedStepModel[];
  cursor: number;
  table: LeafTableModel;
  direction: Direction;
  fault: string | null;
}

export type CompareChannel = Channel<CompareTraits, Settable & keyof CompareTraits>;
