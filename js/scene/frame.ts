import type { Measure } from "../text/measure";
import { oneLine, shortenMiddle } from "../text/shorten";
import { groupTitle } from "./box_words";
import type { Box } from "./grid";

/** An open group: a titled border around what lies in it. */
export interface SceneFrame extends Box {
  path: string;
  title: string;
  /** What is known of it, at its right; null where there is no room. */
  facts: string | null;
  /** Number of frames around it. */
  depth: number;
}

/** Room inside the top border for the title, px. */
export const HEADER = 26;
/** Between the border and the sign beside the title, and between that and the title, px. */
export const TITLE_LEFT = 24;

/** Room that a title takes along the border, px. */
export function titleWidth(path: string, measure: Measure): number {
  return Math.min(280, measure(oneLine(groupTitle(path)), "title") + TITLE_LEFT + 12);
}

/** The title as far as there is room for it. */
export function fittedTitle(path: string, width: number, measure: Measure): string {
  return shortenMiddle(oneLine(groupTitle(path)), width - TITLE_LEFT - 8, (part) =>
    measure(part, "title"),
  );
}
