import type { Layout, LayoutInput } from "../layout/types";

/** The defects of a layout, a line each: upward edges, overlapping boxes, lines through boxes. */
export function defects(input: LayoutInput, result: Layout, gap = 24): string[] {
  const found: string[] = [];
  const count = result.x.length;
  const box = Array.from({ length: count }, (_, v) => {
    const [w, h] = [input.width[result.owner[v]], input.height[result.owner[v]]];
    const [x, y] = [result.x[v], result.y[v]];
    return { left: x - w / 2, right: x + w / 2, top: y - h / 2, bottom: y + h / 2 };
  });
  for (let v = 0; v < count; v++) {
    const a = box[v];
    if (!(a.left >= -0.01 && a.top >= -0.01)) found.push(`box ${v} lies outside`);
    if (!(a.right <= result.width + 0.01 && a.bottom <= result.height + 0.01))
      found.push(`box ${v} lies outside`);
    for (let w = v + 1; w < count; w++) {
      const b = box[w];
      const apart = Math.max(
        a.left - b.right,
        b.left - a.right,
        a.top - b.bottom,
        b.top - a.bottom,
      );
      if (apart < gap - 1e-6) found.push(`boxes ${v} and ${w} are ${apart} apart`);
    }
  }
  for (let e = 0; e < result.edgeTarget.length; e++) {
    const [s, t] = [input.source[e], result.edgeTarget[e]];
    const line = result.route(e);
    const [x0, y0] = line[0];
    const [x1, y1] = line[line.length - 1];
    if (result.y[s] >= result.y[t]) found.push(`edge ${e} runs up`);
    if (Math.abs(y0 - box[s].bottom) > 1e-6 || x0 < box[s].left - 1e-6 || x0 > box[s].right + 1e-6)
      found.push(`edge ${e} starts off its box`);
    if (Math.abs(y1 - box[t].top) > 1e-6 || x1 < box[t].left - 1e-6 || x1 > box[t].right + 1e-6)
      found.push(`edge ${e} ends off its box`);
    for (let i = 1; i < line.length; i++) {
      if (line[i][1] < line[i - 1][1] - 1e-6) found.push(`edge ${e} turns up`);
      for (let v = 0; v < count; v++) {
        if (v !== s && v !== t && passes(line[i - 1], line[i], box[v]))
          found.push(`edge ${e} cuts box ${v}`);
      }
    }
  }
  return found;
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** Whether a segment crosses the inside of a rectangle, in either direction (Liang and Barsky). */
export function passes([x0, y0]: [number, number], [x1, y1]: [number, number], rect: Box): boolean {
  let [from, to] = [0, 1];
  const clip = (start: number, step: number, low: number, high: number) => {
    if (step === 0) {
      if (start <= low || start >= high) to = -1;
      return;
    }
    const [a, b] = [(low - start) / step, (high - start) / step];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  };
  clip(x0, x1 - x0, rect.left + 0.01, rect.right - 0.01);
  clip(y0, y1 - y0, rect.top + 0.01, rect.bottom - 0.01);
  return from < to;
}
