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
  | "digits";

/** The smallest letters at rest, px. A picture at a scale of `LEGIBLE` (scene/views.ts) has none under 11 px. */
export const SMALLEST = 13;

export const FONTS: Record<Style, { size: number; weight: number; family: string }> = {
  title: { size: 13.5, weight: 600, family: SANS },
  name: { size: SMALLEST, weight: 600, family: SANS },
  shape: { size: SMALLEST, weight: 400, family: SANS },
  flag: { size: SMALLEST, weight: 600, family: SANS },
  edge: { size: SMALLEST, weight: 400, family: SANS },
  stub: { size: SMALLEST, weight: 400, family: SANS },
  gradient: { size: SMALLEST, weight: 600, family: SANS },
  sign: { size: 25, weight: 600, family: SANS },
  card: { size: 16, weight: 700, family: SANS },
  cell: { size: SMALLEST, weight: 400, family: SANS },
  label: { size: 13.5, weight: 700, family: SANS },
  number: { size: 22, weight: 600, family: SANS },
  digits: { size: SMALLEST, weight: 600, family: SANS },
};

/** Whether the style's font is monospaced. */
export function isMono(style: Style): boolean {
  return FONTS[style].family === MONO;
}

/** Width of a text in px, in one of the drawing's styles. */
export type Measure = (text: string, style: Style) => number;

/** Measure with a canvas if there is one, so that boxes fit their text in this machine's fonts. */
export function browserMeasure(): Measure {
  const context =
    typeof OffscreenCanvas === "function" ? new OffscreenCanvas(1, 1).getContext("2d") : null;
  if (!context) return estimate;
  const known = new Map<string, number>();
  return (text, style) => {
    const key = `${style} ${text}`;
    let width = known.get(key);
    if (width === undefined) {
      const { size, weight, family } = FONTS[style];
      context.font = `${weight} ${size}px ${family}`;
      width = context.measureText(text).width;
      known.set(key, width);
    }
    return width;
  };
}

/** Widths without a browser: slightly generous, so that text fits. */
export const estimate: Measure = (text, style) => {
  const { size } = FONTS[style];
  const wide = isMono(style) ? 0.62 : 0.6;
  let width = 0;
  for (const char of text) width += (char.codePointAt(0) ?? 0) > 0x2e80 ? 1.05 : wide;
  return width * size;
};
