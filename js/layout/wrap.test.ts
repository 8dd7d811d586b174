import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { passes } from "../testing/layout_defects";
import * as shapes from "../testing/layout_graphs";
import { layout } from "./index";
import type { Layout, LayoutInput } from "./types";

type Point = [number, number];

/** Overlapping boxes, and lines that end off their boxes or pass through others; one line of text each. */
function defects(input: LayoutInput, result: Layout, gap = 24): string[] {
  const found: string[] = [];
  const box = Array.from(result.owner, (o, v) => {
    const [w, h] = [input.width[o] / 2, input.height[o] / 2];
    const [x, y] = [result.x[v], result.y[v]];
    return { left: x - w, right: x + w, top: y - h, bottom: y + h };
  });
  box.forEach((a, v) => {
    if (a.left < 0 || a.top < 0 || a.right > result.width || a.bottom > result.height)
      found.push(`box ${v} lies outside`);
    for (let w = v + 1; w < box.length; w++) {
      const b = box[w];
      const apart = [a.left - b.right, b.left - a.right, a.top - b.bottom, b.top - a.bottom];
      if (Math.max(...apart) < gap - 1e-6) found.push(`boxes ${v} and ${w} are too near`);
    }
  });
  result.edgeTarget.forEach((t, e) => {
    const s = input.source[e];
    const line = result.route(e);
    const [x0, y0] = line[0];
    const [x1, y1] = line[line.length - 1];
    const isOn = (x: number, v: number) => x >= box[v].left - 1e-6 && x <= box[v].right + 1e-6;
    if (!isOn(x0, s) || Math.abs(y0 - box[s].bottom) > 1e-6) found.push(`edge ${e} starts off`);
    if (!isOn(x1, t) || Math.abs(y1 - box[t].top) > 1e-6) found.push(`edge ${e} ends off`);
    for (let i = 1; i < line.length; i++) {
      const [x, y] = line[i];
      if (Math.min(x, y, result.width - x, result.height - y) < -1e-6)
        found.push(`edge ${e} leaves`);
      box.forEach((rect, v) => {
        if (passes(line[i - 1], line[i], rect)) found.push(`edge ${e} cuts box ${v}`);
      });
    }
  });
  return found;
}

/** Pairs of segments of different lines that cross. */
function crossingLines(result: Layout): number {
  const segments: [number, Point, Point][] = [];
  result.edgeTarget.forEach((_, e) => {
    const line = result.route(e);
    for (let i = 1; i < line.length; i++) segments.push([e, line[i - 1], line[i]]);
  });
  const side = ([ax, ay]: Point, [bx, by]: Point, [cx, cy]: Point) =>
    Math.sign(Math.round(1e4 * ((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))));
  let count = 0;
  segments.forEach(([e, a, b], i) => {
    for (const [f, c, d] of segments.slice(i + 1)) {
      if (e === f) continue;
      if (side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0) count++;
    }
  });
  return count;
}

/** Several chains side by side that share their top and bottom. */
function strands(count: number, length: number): shapes.Sketch {
  const g = new shapes.Sketch();
  const root = g.op("x");
  const ends = Array.from({ length: count }, () => {
    let v = root;
    for (let i = 0; i < length; i++) v = g.op("Tanh", v);
    return v;
  });
  g.op("Cat", ...ends);
  return g;
}

/** A backbone with leaves and skips, long enough to be wrapped. */
const tall = fc
  .record({
    length: fc.integer({ min: 25, max: 50 }),
    extra: fc.array(fc.tuple(fc.nat(49), fc.nat(49)), { maxLength: 12 }),
    width: fc.array(fc.integer({ min: 10, max: 90 }), { minLength: 50, maxLength: 50 }),
  })
  .map(({ length, extra, width }): LayoutInput => {
    const kept = extra.filter(([a, b]) => a !== b && Math.max(a, b) < length);
    return {
      n: length,
      source: [...Array(length - 1).keys(), ...kept.map(([a, b]) => Math.min(a, b))],
      target: [...Array(length - 1).keys()]
        .map((v) => v + 1)
        .concat(kept.map(([a, b]) => Math.max(a, b))),
      width: width.slice(0, length),
      height: new Array(length).fill(30),
    };
  });

describe("layout with an aspect", () => {
  it.each([1000, 2000])("wraps a chain of %i into a picture of about that aspect", (n) => {
    const input = shapes.chain(n).input();
    const { width, height, x } = layout(input, { aspect: 1.5 });
    expect(width / height).toBeGreaterThan(1);
    expect(width / height).toBeLessThan(2.2);
    expect(new Set(x).size).toBeGreaterThan(10);
  });

  it("keeps everything apart and every line whole", () => {
    let wrapped = 0;
    fc.assert(
      fc.property(tall, fc.double({ min: 1, max: 4, noNaN: true }), (input, aspect) => {
        const result = layout(input, { aspect });
        expect(defects(input, result)).toEqual([]);
        if (result.height < layout(input).height) wrapped++;
      }),
      { numRuns: 150 },
    );
    expect(wrapped).toBeGreaterThan(100);
  });

  it("moves whole columns, with all that is in them", () => {
    const input = shapes.resnet(12).input();
    const before = layout(input);
    const after = layout(input, { aspect: 1 });
    const moves = new Map<string, number[]>();
    after.x.forEach((x, v) => {
      const key = `${Math.round(x - before.x[v])} ${Math.round(after.y[v] - before.y[v])}`;
      moves.set(key, [...(moves.get(key) ?? []), before.y[v]]);
    });
    expect(moves.size).toBeGreaterThan(2);
    const spans = [...moves.values()].map((ys) => [Math.min(...ys), Math.max(...ys)]);
    spans.sort(([a], [b]) => a - b);
    spans.slice(1).forEach(([top], i) => {
      expect(top).toBeGreaterThan(spans[i][1]);
    });
  });

  it("takes lines around from column to column without crossing them", () => {
    const input = strands(4, 60).input();
    const result = layout(input, { aspect: 1.5 });
    expect(result.height).toBeLessThan(layout(input).height / 2);
    expect(defects(input, result)).toEqual([]);
    expect(crossingLines(result)).toBe(0);
  });

  it("puts an output that is left over where the column before it ends", () => {
    const of = (height: number[]): LayoutInput => ({
      ...{ n: height.length, source: [...height.keys()].slice(1).map((v) => v - 1) },
      ...{ target: [...height.keys()].slice(1), width: height.map(() => 60), height },
    });
    const ends = (height: number[], reversed: boolean) => {
      const { x, y } = layout(of(height), { aspect: 1, long: 900, reversed });
      expect(x[0]).not.toBe(x[1]);
      return [Math.round(y[0] - height[0] / 2), Math.round(y[1] - height[1] / 2)];
    };
    const [output, column] = ends([100, 1000], true);
    expect(output).toBe(column);
    const [first, second] = ends([600, 1000], true); // long enough to be read from its start
    expect(first + 600).toBe(second + 1000);
  });

  it("cuts where one line passes rather than where many do", () => {
    // Bundles of 10 lines over 26, 18 and 18 ranks, single lines between them: thirds end within bundles.
    const g = new shapes.Sketch();
    let v = g.op("x");
    for (const length of [18, 18, 26]) {
      const top = v;
      const ends = Array.from({ length: 10 }, () => {
        let end = top;
        for (let i = 0; i < length; i++) end = g.op("Sin", end);
        return end;
      });
      v = g.op("Cat", ...ends);
      if (length < 26) for (let i = 0; i < 6; i++) v = g.op("Tanh", v);
    }
    const result = layout(g.input(), { aspect: 1 });
    const turning = result.pointStart.slice(1).map((end, e) => end - result.pointStart[e]);
    expect(turning.filter((length) => length > 8).length).toBe(2);
  });

  it("leaves alone what is not too tall, and everything without an aspect", () => {
    const input = shapes.lenet().input();
    const { route: _a, ...plain } = layout(input);
    const { route: _b, ...same } = layout(input, { aspect: 0.2 });
    expect(same).toEqual(plain);
  });

  it("breaks an endless row of leaves into rows, each leaf right below the line", () => {
    const input = shapes.fan(1000).input();
    const result = layout(input, { aspect: 1.5 });
    expect(result.width / result.height).toBeGreaterThan(0.7);
    expect(result.width / result.height).toBeLessThan(3);
    expect(defects(input, result)).toEqual([]);
    expect(result.y.slice(0, 1000).every((y) => y > result.y[1000])).toBe(true);
    expect(crossingLines(layout(shapes.fan(120).input(), { aspect: 1.5 }))).toBe(0);
  });

  it("leaves a row alone that is not that wide, and what leads on", () => {
    const few = shapes.fan(6).input();
    expect(layout(few, { aspect: 1 }).width).toBe(layout(few).width);
    const g = new shapes.Sketch();
    const below = g.op("x");
    const all = Array.from({ length: 60 }, () => g.op("Sin", below));
    g.op("Stack", ...all);
    const { y } = layout(g.input(), { aspect: 1 });
    expect(new Set(all.map((v) => y[v])).size).toBe(1);
  });
});
