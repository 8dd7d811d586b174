import { KEEP_KEYS } from "../hosts";

export { KEEP_KEYS };

/** Attributes by name, or only the value of `class`. */
type Attributes = Record<string, string | number | boolean | null | undefined> | string;
type Child = Node | string | null | undefined | false;
type Children = Child | readonly Child[];

/** An element with attributes and children. Strings become text, never markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  children: Children = [],
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  for (const child of [children].flat())
    if (child !== null && child !== undefined && child !== false)
      made.append(typeof child === "string" ? straight(child) : child);
  return made;
}

/** Remove marks that change the reading direction: a name in a sentence may contain one. */
function straight(text: string): string {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
}

/** The same for SVG. */
export function svgElement<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  children: SVGElement | readonly SVGElement[] = [],
): SVGElementTagNameMap[K] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(made, attributes);
  made.append(...[children].flat());
  return made;
}

/** A text of an SVG picture. */
export function svgText(text: string, attributes: Attributes): SVGTextElement {
  const made = svgElement("text", attributes);
  made.textContent = text;
  return made;
}

function setAttributes(target: Element, attributes: Attributes): void {
  const named = typeof attributes === "string" ? { class: attributes } : attributes;
  for (const [name, value] of Object.entries(named)) {
    if (value === null || value === undefined || value === false) continue;
    target.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Set an attribute if it differs: writing the same value costs the page time. */
export function say(target: Element, name: string, value: string): void {
  if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

/** Set the text if it differs, in the existing text node if there is one. */
export function write(target: Element, text: string): void {
  const { firstChild } = target;
  if (text !== "" && firstChild instanceof Text && firstChild === target.lastChild) {
    if (firstChild.data !== text) firstChild.data = text;
  } else if (target.textContent !== text) target.textContent = text;
}

/** The attributes of a part that scrolls and can have the focus. */
export function focusable(name: string, label: string) {
  return { class: name, tabindex: 0, role: "group", "aria-label": label, ...KEEP_KEYS };
}

/** A part that scrolls sideways, with tables. */
export function scroller(label: string, children: Children = []): HTMLElement {
  return element("div", focusable("gw-table-scroller", label), children);
}

/** A table with column names. */
export function table(
  columns: readonly string[],
  rows: readonly HTMLElement[],
  attributes: Attributes = {},
): HTMLTableElement {
  const names = columns.map((name) => element("th", { scope: "col" }, name));
  return element("table", attributes, [
    element("thead", {}, element("tr", {}, names)),
    element("tbody", {}, rows),
  ]);
}

/** A row with a heading. */
export function tableRow(heading: Node | string, ...cells: Child[]): HTMLTableRowElement {
  return element("tr", {}, [element("th", { scope: "row" }, heading), ...cells]);
}

/** A line icon of 16 by 16 px. */
export function icon(data: string): SVGSVGElement {
  return svgElement(
    "svg",
    { class: "gw-icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    svgElement("path", { d: data }),
  );
}

interface ButtonOptions {
  label: string;
  title?: string;
  icon?: string;
  text?: string;
  class?: string;
  pressed?: boolean;
  /** What tells it from others of a redrawn part, which keeps the focus. */
  focus?: string;
}

export function button(options: ButtonOptions, clicked?: () => void): HTMLButtonElement {
  const made = element(
    "button",
    {
      type: "button",
      class: options.class ?? "gw-button",
      "aria-label": options.label,
      title: options.title ?? options.label,
      "aria-pressed": options.pressed === undefined ? null : String(options.pressed),
      "data-focus": options.focus,
      ...KEEP_KEYS,
    },
    [options.icon && icon(options.icon), options.text],
  );
  if (clicked) made.addEventListener("click", clicked);
  return made;
}

/** A button that looks like a link. */
export function linkButton(
  text: string,
  clicked?: () => void,
  options: Partial<ButtonOptions> = {},
): HTMLButtonElement {
  return button({ label: text, text, class: "gw-link", ...options }, clicked);
}

/** A link that selects what it names. */
export function selectLink(text: string, clicked: () => void, focus = ""): HTMLButtonElement {
  return linkButton(text, clicked, { label: `Select ${text}`, ...(focus && { focus }) });
}

/** A choice of one of several options; `changed` gets its value. */
export function choice(
  attributes: Record<string, string>,
  changed: (value: string) => void,
  options: readonly (readonly [value: string, text: string])[] = [],
): HTMLSelectElement {
  const { class: name, ...rest } = attributes;
  const select = element(
    "select",
    { class: `gw-select ${name ?? ""}`.trim(), ...rest, ...KEEP_KEYS },
    optionsOf(options),
  );
  select.addEventListener("change", () => changed(select.value));
  return select;
}

export function optionsOf(options: readonly (readonly [value: string, text: string])[]) {
  return options.map(([value, text]) => element("option", { value }, text));
}

/** The part of an element that has the focus: in a shadow root the document's is only the host. Null for none. */
export function focusIn(element: HTMLElement): HTMLElement | null {
  const active = (element.getRootNode() as Document | ShadowRoot).activeElement;
  return active instanceof HTMLElement && element.contains(active) ? active : null;
}

/** Replace an element's content; the part with the same key keeps the focus. */
export function keepingFocus(host: HTMLElement, replace: () => void): void {
  const key = focusIn(host)?.dataset.focus;
  replace();
  if (key === undefined) return;
  for (const part of host.querySelectorAll<HTMLElement>("[data-focus]"))
    if (part.dataset.focus === key) part.focus({ preventScroll: true });
}

/** Follow drags with the first button: `start` returns what each move does, and `end` runs after the last. */
export function onDrag(
  target: HTMLElement,
  start: (event: PointerEvent) => (event: PointerEvent) => void,
  end: () => void = () => {},
): void {
  let move: ((event: PointerEvent) => void) | null = null;
  const stop = () => {
    move = null;
    end();
  };
  target.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    target.setPointerCapture?.(event.pointerId);
    move = start(event);
  });
  target.addEventListener("pointermove", (event) => move?.(event));
  target.addEventListener("pointerup", stop);
  target.addEventListener("pointercancel", stop);
}

/** The value to which a key moves a slider, perhaps beyond its ends; null for other keys. */
export function slidTo(
  key: string,
  value: number,
  { min, max, step }: { min: number; max: number; step: number },
): number | null {
  if (key === "Home") return min;
  if (key === "End") return max;
  const steps = {
    ArrowRight: 1,
    ArrowUp: 1,
    ArrowLeft: -1,
    ArrowDown: -1,
    PageUp: 10,
    PageDown: -10,
  };
  return key in steps ? value + steps[key as keyof typeof steps] * step : null;
}

/** Functions to call at the end, last first. */
export class Cleanup {
  private readonly tasks: (() => void)[] = [];

  add(task: () => void): void {
    this.tasks.push(task);
  }

  /** Listen until the end. */
  listen<E extends Event>(
    target: EventTarget,
    type: string,
    listener: (event: E) => void,
    options?: AddEventListenerOptions,
  ): void {
    target.addEventListener(type, listener as EventListener, options);
    this.add(() => target.removeEventListener(type, listener as EventListener, options));
  }

  run(): void {
    for (const task of this.tasks.splice(0).reverse()) task();
  }
}

export function faultBox(text: string): HTMLElement {
  return element("div", { class: "gw-fault", role: "alert" }, text);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
