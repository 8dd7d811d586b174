import { FONTS, type Measure } from "./measure";

/**
 * Fonts whose letters are as wide as the table below says: Arial, and those that were made to its measure. A still
 * picture asks for them first, so that its boxes fit its words on a machine that we do not know.
 */
export const STILL_FONTS = {
  sans: "Arial, 'Liberation Sans', Arimo, Helvetica, sans-serif",
  mono: "Menlo, 'Liberation Mono', 'DejaVu Sans Mono', Consolas, monospace",
} as const;

/** Advance widths of the printable ASCII characters, from the space on, in thousandths of the font's size. */
const REGULAR = [
  278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
  556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
  611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
  667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
  222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
const BOLD = [
  278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
  556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611, 975, 722, 722, 722, 722, 667,
  611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
  667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556,
  278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584,
];
/** Any other letter: about the widest that is common. */
const OTHER = 740;
/** Signs as on a board; as wide in both weights. */
const SIGNS: Readonly<Record<string, number>> = {
  "×": 584,
  "−": 584,
  "÷": 584,
  "²": 333,
  "³": 333,
  // Files have two bars instead.
  "‖": 560,
};
/** Chinese, Japanese, Korean, emoji. */
const WIDE = 1250;

/** Measures by a table, without a browser. */
export const tableMeasure: Measure = (text, style) => {
  const { size, weight } = FONTS[style];
  const table = weight >= 600 ? BOLD : REGULAR;
  let width = 0;
  for (const char of text.normalize("NFD")) width += advance(char, table);
  return (width / 1000) * size;
};

function advance(char: string, table: readonly number[]): number {
  const code = char.codePointAt(0) ?? 0;
  if (/\p{M}/u.test(char)) return 0;
  if (code >= 0x2e80) return WIDE;
  if (code === 0x2026) return 1000;
  return table[code - 32] ?? SIGNS[char] ?? OTHER;
}
