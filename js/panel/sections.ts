import type { Channel } from "../channel";
import { element, KEEP_KEYS } from "../dom/element";
import type { DetailsModel, GraphModel } from "../wire";

/** The sections that the reader opened or closed; kept while details change. */
export type Opened = Map<string, boolean>;

/** What a section of a feature can use. */
export interface SectionContext {
  graph: GraphModel;
  opened: Opened;
  /** Null in a panel without a widget. */
  channel: Pick<Channel, "get" | "set" | "send"> | null;
}

/** What features add to the details of a node. */
export const PANEL_SECTIONS: ((
  details: DetailsModel,
  context: SectionContext,
) => HTMLElement | null)[] = [];

/** A section with a heading that opens and closes it. */
export function section(
  key: string,
  title: string,
  hint: string | null,
  opened: Opened,
  open: boolean,
  ...children: (Node | string | null | false)[]
): HTMLElement {
  const body = element("details", {
    class: "gw-section",
    "data-section": key,
    open: opened.get(key) ?? open,
  });
  const heading = element(
    "summary",
    { "data-focus": `${key}.heading`, ...KEEP_KEYS },
    element("span", "gw-section-title", title),
    hint !== null && element("span", "gw-section-hint", hint),
  );
  body.append(
    heading,
    element(
      "div",
      "gw-section-body",
      ...(children.filter((child) => child !== false && child !== null) as Node[]),
    ),
  );
  body.addEventListener("toggle", () => opened.set(key, body.open));
  return body;
}

/** The reason why a part could not be computed; null if it was. */
export function failedSection(
  details: DetailsModel,
  part: keyof DetailsModel,
  title: string,
  opened: Opened,
): HTMLElement | null {
  const found = details.failed.find((each) => each.part === part);
  if (found === undefined) return null;
  return section(part, title, "not known", opened, true, sentence(found.sentence));
}

/** "and 900 more", below the first of many; null if all are shown. */
export function andMore(count: number, shown: number): HTMLElement | null {
  return count > shown ? element("p", "gw-small", `and ${count - shown} more`) : null;
}

export function sentence(text: string | null): HTMLElement | null {
  return text === null ? null : element("p", "gw-note", text);
}
