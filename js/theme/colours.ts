/** The colours of both themes, light and dark. Text keeps a contrast of 4.5:1. */
export const COLOURS = {
  ground: ["#ffffff", "#17191d"],
  stage: ["#fbfbfc", "#131518"],
  raised: ["#ffffff", "#23262c"],
  sunken: ["#f3f4f6", "#1f2227"],
  text: ["#1c2128", "#e6e9ee"],
  dim: ["#59616e", "#a0a8b4"],
  rule: ["#e3e6ea", "#2d3138"],
  edge: ["#858e9c", "#6b7482"],
  op: ["#ffffff", "#22262c"],
  "op-rule": ["#8791a0", "#66717f"],
  leaf: ["#fff3da", "#362a12"],
  "leaf-rule": ["#b97f1c", "#c98f2d"],
  "leaf-text": ["#57390a", "#ffdc9c"],
  root: ["#f0f1ff", "#23264a"],
  "root-rule": ["#4c54c8", "#8f97f7"],
  "root-text": ["#ffffff", "#14163a"],
  name: ["#3b44ad", "#aab1ff"],
  grad: ["#0f7b55", "#3cc795"],
  "grad-text": ["#ffffff", "#06281c"],
  "grad-soft": ["#e4f4ec", "#14332a"],
  "grad-strong": ["#0a5a3e", "#7fe3bd"],
  track: ["#8c94a1", "#68717e"],
  freed: ["#7a5c00", "#e0bd55"],
  frame: ["#f1f4f9", "#1a1e24"],
  "frame-rule": ["#bfc7d3", "#3b434e"],
  closed: ["#e6ecf7", "#2a3342"],
  "closed-rule": ["#5d6d86", "#8797b0"],
  accent: ["#2463eb", "#79a9ff"],
  "accent-soft": ["#d6e3fd", "#24406f"],
  hit: ["#ffd84d", "#e3b63a"],
  "hit-text": ["#241c00", "#241c00"],
  alarm: ["#b42318", "#ff9a8f"],
  "alarm-soft": ["#fdecea", "#3d1d1a"],
  cut: ["#a1365a", "#f291b2"],
  only: ["#a3307f", "#f29ad4"],
  "only-text": ["#ffffff", "#3a0b2b"],
  "only-soft": ["#fbdff1", "#4d1f40"],
} as const;

/** Coloured items use a tint, and the text on them its ink. */
export const TINTS: Readonly<Record<string, readonly [tint: string, ink: string]>> = {
  // A scale from dark to bright whose steps differ in lightness, so that hue does not matter.
  "is-c0": ["#35175c", "#ffffff"],
  "is-c1": ["#413a86", "#ffffff"],
  "is-c2": ["#3b5a97", "#ffffff"],
  "is-c3": ["#2e7599", "#ffffff"],
  "is-c4": ["#2b9594", "#071512"],
  "is-c5": ["#3eb37f", "#071512"],
  "is-c6": ["#79cb66", "#071512"],
  "is-c7": ["#bbdd58", "#071512"],
  "is-c8": ["#f6ea5f", "#071512"],
  // Kinds without an order.
  "is-k0": ["#9ec5e8", "#0b1a26"],
  "is-k1": ["#f2b880", "#0b1a26"],
  "is-k2": ["#5aae8c", "#0b1a26"],
  "is-k3": ["#f0dc78", "#0b1a26"],
  "is-k4": ["#3f6fa8", "#ffffff"],
  "is-k5": ["#b3502d", "#ffffff"],
  "is-k6": ["#d9a3c7", "#0b1a26"],
  "is-k7": ["#6b6f7a", "#ffffff"],
  // Not on the scale.
  "is-c-none": ["stage", "dim"],
  "is-c-zero": ["stage", "dim"],
  "is-c-mixed": ["sunken", "text"],
  "is-c-alarm": ["alarm", "ground"],
};

/** A thin line needs more contrast to its ground than an area: this share of the text's colour is mixed into its tint. */
export const LINE_SHARE = 0.22;

/** Whether lines too are drawn in the tint of this class. */
export function tintsLines(name: string): boolean {
  return /^is-c(\d|-alarm)$/.test(name);
}
