import { element, KEEP_KEYS } from "../dom/element";

/** Which sections the reader opened or closed; kept while details change. */
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
    element("span", { class: "gw-section-title" }, title),
    hint !== null && element("span", { class: "gw-section-hint" }, hint),
  );
  body.append(
    heading,
    element(
      "div",
      { class: "gw-section-body" },
      ...(children.filter((child) => child !== false && child !== null) as Node[]),
    ),
  );
  body.addEventListener("toggle", () => opened.set(key, body.open));
  return body;
}

export function sentence(text: string | null): HTMLElement | null {
  return text === null ? null : element("p", { class: "gw-note" }, text);
}
