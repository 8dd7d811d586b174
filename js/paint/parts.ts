import { svgElement } from "../dom/element";

/** An SVG element as plain data: made in a page by a painter, or written as text without one. */
export interface Part {
  tag: "circle" | "desc" | "g" | "path" | "rect" | "text" | "title" | "tspan";
  attributes: Readonly<Record<string, string | number>>;
  /** Its children, or the text that it holds. */
  content: readonly Part[] | string;
}

export function part(
  tag: Part["tag"],
  attributes: Part["attributes"] = {},
  content: Part["content"] = [],
): Part {
  return { tag, attributes, content };
}

/** Makes the element in the page. */
export function makePart({ tag, attributes, content }: Part): SVGElement {
  const made = svgElement(tag, attributes);
  if (typeof content === "string") made.textContent = content;
  else made.append(...content.map(makePart));
  return made;
}
