import { valueAt } from "../maps";
/** The widget's fonts. Scenes are built and drawn with them. */
export const SANS =
  'Inter, -apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
export const MONO =
  'ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace';

export type Style =
  | "title"
  | "name"
  | "shape"
  | "flag"
  | "edge"
  | "stub"
  | "gradient"
  // On cards: the sign of an operation, a name, a label; numbers, large and small.
  | "sign"
  | "card"
  | "cell"
  | "label"
  | "number"
  | "digits"
  // Read only from close.
  | "fine";

/** The smallest letters at rest, px. A picture at a scale of `LEGIBLE` (scene/views.ts) has none under 11 px. */
export const SMALLEST = 13;

export const FONTS: Record<Style, { size: number; weight: number }> = {
  title: { size: 13.5, weight: 600 },
  name: { size: SMALLEST, weight: 600 },
  shape: { size: SMALLEST, weight: 400 },
  flag: { size: SMALLEST, weight: 600 },
  edge: { size: SMALLEST, weight: 400 },
  stub: { size: SMALLEST, weight: 400 },
  gradient: { size: SMALLEST, weight: 600 },
  sign: { size: 22, weight: 600 },
  card: { size: 16, weight: 700 },
  cell: { size: SMALLEST, weight: 400 },
  label: { size: 13.5, weight: 700 },
  number: { size: 22, weight: 600 },
  digits: { size: SMALLEST, weight: 600 },
  fine: { size: 6.5, weight: 400 },
};

/** Width of a text in px, in one of the drawing's styles. */
export type Measure = (text: string, style: Style) => number;

/** Measure with a canvas if there is one, so that boxes fit their text in this machine's fonts. */
export function browserMeasure(): Measure {
  const context =
    typeof OffscreenCanvas === "function" ? new OffscreenCanvas(1, 1).getContext("2d") : null;
  if (!context) return estimate;
  const known = new Map<string, number>();
  return (text, style) =>
    valueAt(known, `${style} ${text}`, () => {
      const { size, weight } = FONTS[style];
      context.font = `${weight} ${size}px ${SANS}`;
      return context.measureText(text).width;
    });
}

/** Widths without a browser: slightly generous, so that text fits. */
export const estimate: Measure = (text, style) => {
  let width = 0;
  for (const char of text) width += (char.codePointAt(0) ?? 0) > 0x2e80 ? 1.05 : 0.6;
  return width * FONTS[style].size;
};
