import { element, svgElement, svgText } from "../dom/element";

/** The legend's entries for what not all graphs have. */
export function onlyEntries(): HTMLElement[] {
  const text = svgText("only here", { x: 0, y: 3.4 });
  return [
    entry(
      "what other graphs lack",
      60,
      svgElement("rect", { class: "gw-only-ground", x: -29, y: -9, width: 58, height: 18, rx: 5 }),
      svgElement(
        "g",
        "gw-only-tag",
        svgElement("rect", { x: -25, y: -6.5, width: 50, height: 13, rx: 3 }),
        text,
      ),
    ),
    entry(
      "what this graph lacks",
      28,
      svgElement("rect", { class: "gw-ghost", x: -12, y: -6.5, width: 24, height: 13, rx: 4 }),
    ),
  ];
}

/** Return an entry of the legend: shapes, and their meaning. */
export function entry(text: string, width: number, ...shapes: SVGElement[]): HTMLElement {
  return element(
    "span",
    { class: "gw-legend-entry", role: "listitem" },
    svgElement(
      "svg",
      { viewBox: `${-width / 2} -10 ${width} 20`, width, height: 20, "aria-hidden": "true" },
      ...shapes,
    ),
    text,
  );
}
