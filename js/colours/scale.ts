/** The number of colours on a scale; their classes are "is-c0" (least) to "is-c8" (most). */
export const STEPS = 9;

/** A scale in equal steps of the logarithm. */
export interface LogScale {
  least: number;
  most: number;
}

/** The scale over the positive, finite values; null if there is none. */
export function logScale(values: Iterable<number>): LogScale | null {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (const value of values) {
    if (!isOnScale(value)) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  return most > 0 ? { least, most } : null;
}

/** The least ratio of a gradient scale's ends to the median. */
const TWO_DECADES = 100;

/**
 * The scale of gradient norms: at least four decades around the median of `all`, so that norms that are close look close,
 * whatever is shown of them.
 */
export function gradientScale(
  shown: Iterable<number>,
  all: Iterable<number> = [],
): LogScale | null {
  const known = [...all].filter(isOnScale);
  const drawn = [...shown].filter(isOnScale);
  const scale = logScale([...known, ...drawn]);
  if (!scale || scale.least === scale.most) return scale;
  const norms = Float64Array.from(known.length > 0 ? known : drawn).sort();
  const median = norms[norms.length >> 1];
  return {
    least: Math.min(scale.least, median / TWO_DECADES),
    most: Math.max(scale.most, median * TWO_DECADES),
  };
}

function isOnScale(value: number): boolean {
  return value > 0 && value < Number.POSITIVE_INFINITY;
}

/** The position of a positive value on the scale, 0 to 1; 0.5 if all values are the same. */
export function placeOn({ least, most }: LogScale, value: number): number {
  // Subtract logarithms, because the ratio of two floats could overflow.
  const range = Math.log(most) - Math.log(least);
  if (range <= 0) return 0.5;
  return Math.max(0, Math.min(1, (Math.log(value) - Math.log(least)) / range));
}

/** The index of a positive value's colour. */
export function stepOn(scale: LogScale, value: number): number {
  return Math.min(STEPS - 1, Math.floor(placeOn(scale, value) * STEPS));
}

/** At most `most` round values to write beside the scale: powers of `base`, else the ends. */
export function ticksOn(scale: LogScale, base: number, most = 5): number[] {
  const first = Math.ceil(Math.log(scale.least) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(scale.most) / Math.log(base) + 1e-9);
  if (last <= first) return scale.least === scale.most ? [scale.least] : [scale.least, scale.most];
  const every = Math.ceil((last - first + 1) / most);
  const ticks: number[] = [];
  for (let power = first; power <= last; power += every) ticks.push(base ** power);
  return ticks;
}
