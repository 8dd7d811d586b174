import { element, KEEP_KEYS } from "../dom/element";
import type { DetailsModel } from "../wire";

/** The sections that the reader opened or closed; kept while details change. */
export type Opened = Map<string, boolean>;

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
