import type { Runs } from "./runs";
import type { Placing } from "./types";

/** A run that would bend more than this to be straight is cut, px. */
const EXTENT = 40;

/**
 * Straighten nearly straight runs by pushing outwards: on each side of the spine, a run moves to its outermost place
 * and pushes everything beyond. Runs go from the spine outwards, so one pass is enough.
 */
export function pushOut({ layered, order, place, apart, x, spine }: Placing, runs: Runs): void {
  const { size, rank, ranks } = layered;
  const { head, following } = pieces(runs, x, spine);
  pushSide(1);
  pushSide(-1);

  function neighbour(v: number, step: number): number {
    const at = place[v] + step;
    return at >= ranks.start[rank[v]] && at < ranks.start[rank[v] + 1] ? order[at] : -1;
  }

  function pushSide(side: number): void {
    const isHere = (v: number) => v >= 0 && x[v] < 0 === side < 0;
    // Per piece (by its head), how many of its nodes wait for an inner piece.
    const waiting = new Int32Array(size);
    const done = new Uint8Array(size);
    const queue: number[] = [];
    for (let v = 0; v < size; v++) if (isHere(v) && isHere(neighbour(v, -side))) waiting[head[v]]++;
    for (let v = 0; v < size; v++) if (isHere(v) && head[v] === v && !waiting[v]) queue.push(v);
    for (let next = 0, scan = 0; ; ) {
      while (next < queue.length) settle(queue[next++]);
      // Pieces that wait for each other are split one by one.
      while (scan < size && (done[scan] || !isHere(scan) || isSingle(scan))) scan++;
      if (scan === size) break;
      takeApart(head[scan]);
    }

    function isSingle(v: number): boolean {
      return head[v] === v && following[v] < 0;
    }

    function takeApart(first: number): void {
      for (let v = first; v >= 0; ) {
        const next = following[v];
        head[v] = v;
        following[v] = -1;
        const inner = neighbour(v, -side);
        waiting[v] = isHere(inner) && !done[inner] ? 1 : 0;
        if (!waiting[v]) queue.push(v);
        v = next;
      }
    }

    function settle(first: number): void {
      let out = 0;
      for (let v = first; v >= 0; v = following[v]) {
        out = Math.max(out, side * x[v]);
        const inner = neighbour(v, -side);
        if (isHere(inner))
          out = Math.max(out, side * x[inner] + apart[place[side > 0 ? v : inner]]);
      }
      for (let v = first; v >= 0; v = following[v]) {
        x[v] = side * out;
        done[v] = 1;
        const outer = neighbour(v, side);
        if (isHere(outer) && --waiting[head[outer]] === 0) queue.push(head[outer]);
      }
    }
  }
}

/** Cut runs where they leave or cross the spine, or spread too far; a piece is named by its first node. */
function pieces({ next, heads }: Runs, x: Float64Array, spine: Uint8Array) {
  const head = new Int32Array(x.length);
  const following = next.slice();
  for (const start of heads) {
    let first = start;
    let [least, most] = [x[start], x[start]];
    head[start] = start;
    for (let u = start, v = next[start]; v >= 0; u = v, v = next[v]) {
      const isCut = spine[u] || spine[v] || x[u] < 0 !== x[v] < 0;
      if (isCut || Math.max(most, x[v]) - Math.min(least, x[v]) > EXTENT) {
        following[u] = -1;
        first = v;
        least = most = x[v];
      }
      head[v] = first;
      least = Math.min(least, x[v]);
      most = Math.max(most, x[v]);
    }
  }
  return { head, following };
}
