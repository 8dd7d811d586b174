import type { Channel, Traits } from "../channel";
import type { Cleanup } from "../dom/element";
import type { Drawing } from "../interact/drawing";
import type { Press } from "../interact/hit";
import type { PanelPart } from "../panel/panel";
import type { SceneNode } from "../scene/scene";
import type { Measure } from "../text/measure";
import type { GraphModel } from "../wire";

/** The widget of one graph, as a part sees it. */
export interface PartView {
  readonly channel: Channel;
  readonly drawing: Drawing;
  readonly measure: Measure;
  readonly cleanup: Cleanup;
  /** The whole graph; null before the first picture. */
  graph(): GraphModel | null;
  /** Select a node and move to it. */
  goTo(node: number): void;
  /** Select nothing. */
  deselect(): void;
}

/** The part of a feature in the widget of one graph. A part that throws is reported, and the others go on. */
export interface ViewPart {
  /** A tool of the toolbar. */
  readonly tool?: HTMLElement;
  /** A row above the stepping bar. */
  readonly question?: HTMLElement;
  /** A row below the stepping bar. */
  readonly strip?: HTMLElement;
  /** A section among a node's details; while `isOpen`, also without a selection, under its title. */
  readonly section?: PanelPart;
  /** The traits that it shows. */
  readonly traits?: readonly (keyof Traits)[];
  /** Show the graph and the traits: at the start, for another graph, and after each change of one. */
  update?(): void;
  /** Show another scene: laid out, folded, or of another graph. */
  drawn?(): void;
  /** Follow the camera. */
  moved?(): void;
  /** Follow the cursor, or another recorded pass: `drawing.progress`. */
  stepped?(): void;
  /** Take a click on a node, instead of selecting it; false if it was not for this part. */
  clicked?(node: number | null): boolean;
  /** Take a press or a key, instead of folding; false if it was not for this part. */
  pressed?(graph: GraphModel, press: Press): boolean;
  keyed?(graph: GraphModel, key: string, node: SceneNode): boolean;
  /** Take Escape; false if there was nothing to leave. */
  left?(): boolean;
  /** The panel was closed. */
  closed?(): void;
  /** Words for the stepping bar: their subject, and names with the words beside them. */
  note?(): { of: string; words: [name: string, words: string][] } | null;
}

/** What features add to the widget of one graph. */
export const VIEW_PARTS: ((view: PartView) => ViewPart)[] = [];
