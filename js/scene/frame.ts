import type { Measure } from "../text/measure";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel } from "../wire";
import { groupTitle } from "./box_words";
import type { Box } from "./grid";
import type { Text } from "./node_shape";

/** An open group: a border with a title around its content. */
export interface SceneFrame extends Box {
  path: string;
  title: string;
  /** Number of frames around it. */
  depth: number;
  /** The other texts of its head, from the frame's upper left corner, as far as they fit. */
  facts: readonly Text[];
  /** The ranks that have all of it, if its head states them; and whether its head or an outer one does. */
  says?: string;
  isStated?: boolean;
  /** Whether it cannot be closed alone. */
  isFixed?: boolean;
}

/** Room inside the top border for the title, px. */
export const HEADER = 26;
/** From the border to the sign beside the title, and from that to the title, px. */
export const TITLE_LEFT = 24;

type Titled = Pick<GraphModel, "nodes">;

/** A title's length along the border, px. */
export function titleWidth(graph: Titled, path: string, measure: Measure): number {
  return Math.min(280, measure(oneLine(groupTitle(path, graph)), "title") + TITLE_LEFT + 12);
}

/** The title, shortened to its room. */
export function fittedTitle(graph: Titled, path: string, width: number, measure: Measure): string {
  return fittedWords(groupTitle(path, graph), width - TITLE_LEFT - 8, measure);
}

export function fittedWords(text: string, width: number, measure: Measure): string {
  return shortenMiddle(oneLine(text), width, (part) => measure(part, "title"));
}
