import { valueAt } from "../maps";
import { MONO, SANS } from "../text/measure";
import { type Fonts, lookOf, type Place, placeOf, type Setting, type Theme } from "../theme/styles";
import type { Part } from "./parts";

/** How something is drawn. Widths, dashes and fonts are in px of the scene. */
export interface Ink {
  /** Null for no fill or stroke. */
  fill: string | null;
  stroke: string | null;
  width: number;
  dash: readonly number[];
  /** Including its surroundings, 0 to 1. */
  opacity: number;
  font: string;
  fontSize: number;
  align: "left" | "center" | "right";
  textRendering: CanvasTextRendering;
  /** Whether a text's outline is drawn under its fill. */
  strokeFirst: boolean;
  /** Whether its lines have the same width at every scale. */
  isConstant: boolean;
}

/** Look up a part's ink; null if it is hidden. */
export interface InkWell {
  readonly ink: Ink;
  within(part: Pick<Part, "tag" | "attributes">): InkWell | null;
}

type Tag = Part["tag"];
type Style = Readonly<Record<string, string>>;

const FONTS: Fonts = { sans: SANS, mono: MONO };

/** Looks for a canvas. Each combination of classes is looked up once per theme. */
export class Inks {
  private wells = new Map<string, InkWell | null>();
  private setting: Setting | null = null;

  constructor(private readonly settingNow: () => Setting) {}

  /** The look of a separate element with these classes. */
  of(tag: Tag, name: string): InkWell | null {
    this.setting ??= this.settingNow();
    const { theme, root } = this.setting;
    const make = () => wellOf(placeOf(tag, name, root), {}, 1, theme);
    return valueAt(this.wells, `${tag} ${name}`, make);
  }

  clear(): void {
    this.wells.clear();
    this.setting = null;
  }
}

/** `inherited` and `opacity` come from the parts around. */
function wellOf(place: Place, inherited: Style, opacity: number, theme: Theme): InkWell | null {
  const own = lookOf(place, theme, FONTS);
  if (own.display === "none") return null;
  const ink = inkOf({ ...inherited, ...own }, opacity);
  const { opacity: _, display: __, "vector-effect": ___, ...passed } = { ...inherited, ...own };
  const wells = new Map<string, InkWell | null>();
  return {
    ink,
    within({ tag, attributes: { class: name, "text-anchor": anchor } }) {
      return valueAt(wells, `${tag} ${name ?? ""} ${anchor ?? ""}`, () => {
        const around = anchor === undefined ? passed : { ...passed, "text-anchor": `${anchor}` };
        return wellOf(placeOf(tag, name, place), around, ink.opacity, theme);
      });
    },
  };
}

const ALIGN: Readonly<Record<string, Ink["align"]>> = { middle: "center", end: "right" };

function inkOf(style: Style, around: number): Ink {
  return {
    fill: paintOf(style.fill ?? "#000"),
    stroke: paintOf(style.stroke ?? "none"),
    width: Number(style["stroke-width"] ?? 1),
    dash: lengthsOf(style["stroke-dasharray"] ?? "none"),
    opacity: around * Number(style.opacity ?? 1),
    font: `${style["font-weight"]} ${style["font-size"]} ${style["font-family"]}`,
    fontSize: Number.parseFloat(style["font-size"] ?? "0"),
    align: ALIGN[style["text-anchor"]] ?? "left",
    textRendering: style["text-rendering"] ? "geometricPrecision" : "auto",
    strokeFirst: style["paint-order"] === "stroke",
    isConstant: style["vector-effect"] !== undefined,
  };
}

/** A colour for a canvas; null if invisible. */
function paintOf(colour: string): string | null {
  return colour === "none" || colour === "transparent" ? null : colour;
}

function lengthsOf(dashes: string): number[] {
  return dashes === "none" ? [] : dashes.split(" ").map(Number);
}
