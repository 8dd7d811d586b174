import { svgElement } from "../dom/element";
import type { Part } from "./parts";

/** How the style sheets have something drawn. Widths, dashes and fonts are in px of the scene. */
export interface Ink {
  /** Null where nothing is filled or stroked. */
  fill: string | null;
  stroke: string | null;
  width: number;
  dash: readonly number[];
  /** Of it and of everything around it, 0 to 1. */
  opacity: number;
  font: string;
  fontSize: number;
  align: "left" | "center" | "right";
  textRendering: CanvasTextRendering;
  /** Whether a text's outline is drawn under its fill. */
  strokeFirst: boolean;
  /** Whether its lines are as wide at every scale. */
  isConstant: boolean;
}

/** Finds how a part inside is drawn; null if it is hidden. */
export interface InkWell {
  readonly ink: Ink;
  within(part: Pick<Part, "tag" | "attributes">): InkWell | null;
}

type Tag = Part["tag"];

/**
 * Asks the browser how parts of these classes look: the style sheets stay the one place that says so, and a canvas
 * draws what elements would show. Each combination of classes is asked for once, until `clear`.
 */
export class Inks {
  /** Where elements lie while they are asked, so that the same rules hold for them as for those that are seen. */
  readonly element = svgElement("g", { visibility: "hidden" });
  private wells = new Map<string, InkWell | null>();

  /** What an element of these classes looks like that is drawn by itself. */
  of(tag: Tag, name: string): InkWell | null {
    const key = `${tag} ${name}`;
    let well = this.wells.get(key);
    if (well === undefined) {
      const top = svgElement(tag, { class: name });
      well = this.ask(top, 1, top);
      this.wells.set(key, well);
    }
    return well;
  }

  /** Forgets everything, after the theme has changed. */
  clear(): void {
    this.wells = new Map();
  }

  private ask(asked: SVGElement, opacity: number, top: SVGElement): InkWell | null {
    this.element.append(top);
    const style = getComputedStyle(asked);
    const ink = style.display === "none" ? null : readInk(style, opacity);
    top.remove();
    if (!ink) return null;
    const wells = new Map<string, InkWell | null>();
    const within: InkWell["within"] = ({ tag, attributes }) => {
      const { class: name, "text-anchor": anchor } = attributes;
      const key = `${tag} ${name ?? ""} ${anchor ?? ""}`;
      let well = wells.get(key);
      if (well === undefined) {
        const part = svgElement(tag, { class: name, "text-anchor": anchor });
        asked.append(part);
        well = this.ask(part, ink.opacity, top);
        wells.set(key, well);
      }
      return well;
    };
    return { ink, within };
  }
}

const ALIGN: Readonly<Record<string, Ink["align"]>> = { middle: "center", end: "right" };

function readInk(style: CSSStyleDeclaration, around: number): Ink {
  const dash = style.strokeDasharray;
  return {
    fill: paintOf(style.fill, style.fillOpacity),
    stroke: paintOf(style.stroke, style.strokeOpacity),
    width: Number.parseFloat(style.strokeWidth) || 0,
    dash:
      dash === "none" || dash === "" ? [] : dash.split(",").map((part) => Number.parseFloat(part)),
    opacity: around * Number.parseFloat(style.opacity || "1"),
    font: `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`,
    fontSize: Number.parseFloat(style.fontSize) || 0,
    align: ALIGN[style.textAnchor] ?? "left",
    textRendering: style.textRendering === "geometricprecision" ? "geometricPrecision" : "auto",
    strokeFirst: style.paintOrder.startsWith("stroke"),
    isConstant: style.vectorEffect === "non-scaling-stroke",
  };
}

/** How an element of the page is drawn. */
export function inkOf(element: Element): Ink {
  return readInk(getComputedStyle(element), 1);
}

/** A colour for a canvas; null where nothing would be seen. */
function paintOf(colour: string, opacity: string): string | null {
  if (colour === "" || colour === "none" || colour === "rgba(0, 0, 0, 0)") return null;
  const share = Number.parseFloat(opacity);
  if (share === 0) return null;
  return share < 1 ? `color-mix(in srgb, ${colour} ${100 * share}%, transparent)` : colour;
}
