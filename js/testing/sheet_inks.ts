import { Cascade, type Style } from "../export/cascade";
import type { Styled } from "../export/selector";
import type { Ink, InkWell } from "../paint/ink";
import type { Part } from "../paint/parts";

const sheets = import.meta.glob("../styles/*.css", {
  query: "?raw",
  import: "default",
  eager: true,
}) as Record<string, string>;

/** What the widget's own style sheets say, worked out without a browser. */
export function sheetInks(theme: "light" | "dark" = "light") {
  const css = Object.values(sheets).join("\n");
  const root: Styled = {
    tag: "div",
    classes: new Set(["gradwalk"]),
    attributes: { "data-theme": theme },
    parent: null,
  };
  const cascade = new Cascade(css, root);
  return {
    of: (tag: Part["tag"], name: string): InkWell | null =>
      wellOf(cascade, { tag, classes: new Set(name.split(" ")), attributes: {}, parent: root }, 1),
  };
}

function wellOf(cascade: Cascade, element: Styled, around: number): InkWell | null {
  const style = cascade.styleOf(element);
  if (style.display === "none") return null;
  const ink = inkOf(style, around);
  return {
    ink,
    within: ({ tag, attributes }) => {
      const classes = new Set(`${attributes.class ?? ""}`.split(" "));
      return wellOf(cascade, { tag, classes, attributes, parent: element }, ink.opacity);
    },
  };
}

function inkOf(style: Style, around: number): Ink {
  const paint = (value: string | undefined) =>
    value === undefined || value === "none" || value === "transparent" ? null : value;
  return {
    fill: paint(style.fill ?? "#000"),
    stroke: paint(style.stroke),
    width: Number.parseFloat(style["stroke-width"] ?? "1"),
    dash: (style["stroke-dasharray"] ?? "")
      .split(" ")
      .filter((part) => part !== "" && part !== "none")
      .map(Number),
    opacity: around * Number(style.opacity ?? 1),
    font: `${style["font-weight"]} ${style["font-size"]} ${style["font-family"]}`,
    fontSize: Number.parseFloat(style["font-size"] ?? "0"),
    align: style["text-anchor"] === "middle" ? "center" : "left",
    textRendering: "auto",
    strokeFirst: false,
    isConstant: style["vector-effect"] === "non-scaling-stroke",
  };
}
