import type { Channel } from "../channel";
import { element, KEEP_KEYS } from "../dom/element";
import { counted } from "../text/number";
import type { DetailsModel, GraphModel } from "../wire";

/** The state and actions that a feature's section can use. */
export interface SectionContext {
  graph: GraphModel;
  /** Null in a panel without a widget. */
  channel: Pick<Channel, "get" | "set" | "send"> | null;
}

/** What features add to the details of a node. */
export const PANEL_SECTIONS: ((
  details: DetailsModel,
  context: SectionContext,
) => HTMLElement | null)[] = [];

interface SectionHead {
  /** The panel keeps the sections with this key open or closed while details change. */
  key: string;
  title: string;
  hint?: string | null;
  /** Whether it is open at first. */
  open?: boolean;
}

/** A section with a heading that opens and closes it. */
export function section(
  { key, title, hint = null, open = true }: SectionHead,
  children: Parameters<typeof element>[2],
): HTMLElement {
  const heading = element("summary", { "data-focus": `${key}.heading`, ...KEEP_KEYS }, [
    element("span", "gw-section-title", title),
    hint !== null && element("span", "gw-section-hint", hint),
  ]);
  const body = element("div", "gw-section-body", children);
  return element("details", { class: "gw-section", "data-section": key, open }, [heading, body]);
}

/** A section that says why a part could not be computed; null if it was. */
export function failedSection(
  details: DetailsModel,
  part: keyof DetailsModel,
  title: string,
): HTMLElement | null {
  const found = details.failed.find((each) => each.part === part);
  if (found === undefined) return null;
  return section({ key: part, title, hint: "not known" }, sentence(found.sentence));
}

/** "and 900 more edges", below the first of many; null if all are shown. */
export function andMore(count: number, shown: number, one = "", many?: string): HTMLElement | null {
  const rest = count - shown;
  if (rest <= 0) return null;
  const words = one === "" ? `${rest} more` : counted(rest, `more ${one}`, many && `more ${many}`);
  return element("p", "gw-small", `and ${words}`);
}

export function sentence(text: string | null): HTMLElement | null {
  return text === null ? null : element("p", "gw-note", text);
}
