import { svgElement, write } from "../dom/element";

/** An SVG element as plain data: a painter makes elements of it, an export writes text. */
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

/**
 * Update elements to parts of the same form, so that the page makes and styles no new ones. False, and nothing done, if
 * the forms differ. The elements are the first children of `group`, made from `was`.
 */
export function changeParts(group: Element, was: readonly Part[], now: readonly Part[]): boolean {
  if (!areAlike(was, now)) return false;
  for (const [i, part] of now.entries()) changePart(group.children[i], was[i], part);
  return true;
}

function areAlike(was: readonly Part[], now: readonly Part[]): boolean {
  const isAlike = (one: Part, other: Part) => one === other || isOfForm(one, other);
  const isOfForm = (one: Part, { tag, content }: Part) =>
    one.tag === tag &&
    (typeof one.content === "string" || typeof content === "string"
      ? typeof one.content === typeof content
      : areAlike(one.content, content));
  return was.length === now.length && was.every((one, i) => isAlike(one, now[i]));
}

function changePart(made: Element, was: Part, now: Part): void {
  if (was === now) return;
  for (const name in was.attributes) if (!(name in now.attributes)) made.removeAttribute(name);
  for (const name in now.attributes)
    if (was.attributes[name] !== now.attributes[name])
      made.setAttribute(name, String(now.attributes[name]));
  const { content } = now;
  if (typeof content === "string") {
    if (was.content !== content) write(made, content);
  } else
    for (const [i, part] of content.entries())
      changePart(made.children[i], was.content[i] as Part, part);
}
