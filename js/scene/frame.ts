import type { Measure } from "../text/measure";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel } from "../wire";
import { groupTitle } from "./box_words";
import type { Box } from "./grid";
import type { Text } from "./node_shape";

/** An open group: a titled border around what lies in it. */
export interface SceneFrame extends Box {
  path: string;
  title: string;
  /** Number of frames around it. */
  depth: number;
  /** What else is written in its head, from the frame's upper left corner on, as far as there is room. */
  facts: readonly Text[];
  /** Which ranks of a run have all in it, where its head says so; and whether that or the head of one around it does. */
  says?: string;
  isTold?: boolean;
  /** Whether it cannot be closed by itself. */
  isFixed?: boolean;
  /** What a frame has that is a lens. */
  lens?: LensFrame;
}

/** A block of a strip that is opened below it. */
export interface LensFrame {
  /** Corners of what ties it to its bar, x and y in turn. */
  wedge: readonly number[];
  /** Signs in its head that open the blocks beside it: "‹ 6", "8 ›". */
  steps: readonly { path: string; text: Text }[];
  /** Where the sign is that closes it, and where its gradient is written. From the upper left corner on. */
  close: { x: number; y: number };
  gradient: { x: number; y: number };
  leaves: readonly number[];
}

/** Room inside the top border for the title, px. */
export const HEADER = 26;
/** Between the border and the sign beside the title, and between that and the title, px. */
export const TITLE_LEFT = 24;

type Titled = Pick<GraphModel, "nodes">;

/** Room that a title takes along the border, px. */
export function titleWidth(graph: Titled, path: string, measure: Measure): number {
  return Math.min(280, measure(oneLine(groupTitle(path, graph)), "title") + TITLE_LEFT + 12);
}

/** The title as far as there is room for it. */
export function fittedTitle(graph: Titled, path: string, width: number, measure: Measure): string {
  return fittedWords(groupTitle(path, graph), width - TITLE_LEFT - 8, measure);
}

export function fittedWords(text: string, width: number, measure: Measure): string {
  return shortenMiddle(oneLine(text), width, (part) => measure(part, "title"));
}
