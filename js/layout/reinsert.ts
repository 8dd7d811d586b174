import type { Layered } from "./rank";

/** The cost of a node between a hanging run and its siblings, in crossings. */
const STRAY = 0.01;

/**
 * Reinsertion: take out a run (a path of nodes and dummies with at most one neighbour on either side, such as a long
 * edge) and put it back with the fewest crossings, by a shortest path over the slots of each rank. This moves a line
 * past a block in one step, which switching neighbours cannot do. A hanging run (such as a leaf) moves next to its
 * siblings. Runs without need stay. Stops after about `effort` elementary steps; returns how many are left.
 */
export function reinsertRuns(
  layered: Layered,
  order: Int32Array,
  position: Int32Array,
  effort: number,
): number {
  return new Reinsertion(layered, order, position, effort).run();
}

class Reinsertion {
  constructor(
    private readonly layered: Layered,
    private readonly order: Int32Array,
    private readonly position: Int32Array,
    /** Elementary steps that are left. */
    private left: number,
  ) {}

  run(): number {
    const { layered, position } = this;
    const { size, ranks, up, down } = layered;
    const degree = (side: Layered["up"], v: number) => side.start[v + 1] - side.start[v];
    const isThin = (v: number) => degree(up, v) <= 1 && degree(down, v) <= 1;
    for (let k = 0; k < size && this.left > 0; k++) {
      const head = ranks.item[k];
      if (!isThin(head)) continue;
      const above = degree(up, head) ? up.item[up.start[head]] : -1;
      if (above >= 0 && isThin(above)) continue;
      const run = [head];
      let below = degree(down, head) ? down.item[down.start[head]] : -1;
      while (below >= 0 && isThin(below)) {
        run.push(below);
        below = degree(down, below) ? down.item[down.start[below]] : -1;
      }
      this.left -= run.length;
      let present = this.countPresent(above, run, below);
      if (below < 0) {
        const [first, last] = this.amongSiblings(above, head);
        present += STRAY * Math.max(0, first - position[head], position[head] - last);
      }
      if (present === 0) continue;
      if (this.costOf(above, run, below) <= this.left) this.reinsert(above, run, below, present);
    }
    return Math.max(0, this.left);
  }

  /** The elementary steps that a run's reinsertion takes. */
  private costOf(above: number, run: number[], below: number): number {
    const { rank, ranks } = this.layered;
    const first = rank[above >= 0 ? above : run[0]];
    const last = rank[below >= 0 ? below : run[run.length - 1]];
    let sum = 0;
    for (let r = first; r < last; r++) {
      sum += 3 * (ranks.start[r + 1] - ranks.start[r]) * (ranks.start[r + 2] - ranks.start[r + 1]);
    }
    return sum;
  }

  /** The current crossings of a run's segments. */
  private countPresent(above: number, run: number[], below: number): number {
    let sum = 0;
    if (above >= 0) sum += this.crossingsOf(above, run[0]);
    for (let i = 1; i < run.length; i++) sum += this.crossingsOf(run[i - 1], run[i]);
    if (below >= 0) sum += this.crossingsOf(run[run.length - 1], below);
    return sum;
  }

  private crossingsOf(u: number, v: number): number {
    const { order, position } = this;
    const { rank, ranks, down } = this.layered;
    let sum = 0;
    const r = rank[u];
    for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++) {
      const a = order[i];
      if (a === u) continue;
      const before = i - ranks.start[r] < position[u];
      for (let j = down.start[a]; j < down.start[a + 1]; j++) {
        const b = position[down.item[j]];
        if (before ? b > position[v] : b < position[v]) sum++;
        this.left--;
      }
    }
    return sum;
  }

  private reinsert(above: number, run: number[], below: number, present: number): void {
    const { position } = this;
    const { rank, ranks } = this.layered;
    const slots = run.map((v) => ranks.start[rank[v] + 1] - ranks.start[rank[v]]);
    const from: Int32Array[] = [];
    let cost = new Float64Array(slots[0]);
    if (above >= 0) {
      const table = this.costs(above, run[0], false, true);
      for (let j = 0; j < slots[0]; j++) cost[j] = table[position[above] * (slots[0] + 1) + j];
    }
    if (below < 0) {
      const [first, last] = this.amongSiblings(above, run[0]);
      for (let j = 0; j < slots[0]; j++) cost[j] += STRAY * Math.max(0, first - j, j - last);
    }
    this.prefer(cost, run[0]);
    for (let i = 1; i < run.length; i++) {
      const table = this.costs(run[i - 1], run[i], true, true);
      const next = new Float64Array(slots[i]).fill(Infinity);
      const via = new Int32Array(slots[i]);
      const stride = slots[i] + 1;
      for (let a = 0; a < slots[i - 1]; a++) {
        for (let b = 0; b < slots[i]; b++) {
          const c = cost[a] + table[a * stride + b];
          if (c < next[b]) {
            next[b] = c;
            via[b] = a;
          }
        }
      }
      this.left -= slots[i - 1] * slots[i];
      this.prefer(next, run[i]);
      cost = next;
      from[i] = via;
    }
    const last = run.length - 1;
    if (below >= 0) {
      const table = this.costs(run[last], below, true, false);
      const stride = ranks.start[rank[below] + 1] - ranks.start[rank[below]] + 1;
      for (let a = 0; a < slots[last]; a++) cost[a] += table[a * stride + position[below]];
    }
    let slot = 0;
    for (let a = 1; a < slots[last]; a++) if (cost[a] < cost[slot]) slot = a;
    if (cost[slot] > present - STRAY / 2) return;
    for (let i = last; i >= 0; i--) {
      this.move(run[i], slot);
      if (i > 0) slot = from[i][slot];
    }
  }

  /** The slots between which a hanging run's head is among its siblings. */
  private amongSiblings(above: number, head: number): [number, number] {
    const { position } = this;
    const { down } = this.layered;
    let first = Infinity;
    let last = -Infinity;
    if (above < 0) return [0, first];
    for (let j = down.start[above]; j < down.start[above + 1]; j++) {
      const w = down.item[j];
      if (w === head) continue;
      const slot = position[w] > position[head] ? position[w] - 1 : position[w];
      first = Math.min(first, slot);
      last = Math.max(last, slot + 1);
    }
    this.left -= down.start[above + 1] - down.start[above];
    return first <= last ? [first, last] : [0, Infinity];
  }

  /** A small cost for leaving the present place, so that ties keep it. */
  private prefer(cost: Float64Array, v: number): void {
    const { position } = this;
    for (let j = 0; j < cost.length; j++)
      cost[j] += Math.min(1e-4, 1e-6 * Math.abs(j - position[v]));
  }

  /**
   * The crossings of a segment from u's rank to v's, by the places of its ends. A `free` end is taken out, and its
   * place is a slot: the number of other nodes on its left.
   */
  private costs(u: number, v: number, freeU: boolean, freeV: boolean): Float64Array {
    const { order, position } = this;
    const { rank, ranks, down } = this.layered;
    const r = rank[u];
    const rows = ranks.start[r + 1] - ranks.start[r] + 1;
    const columns = ranks.start[r + 2] - ranks.start[r + 1] + 1;
    const table = new Float64Array(rows * columns);
    const [skipU, skipV] = [position[u], position[v]];
    for (let i = ranks.start[r]; i < ranks.start[r + 1]; i++) {
      const node = order[i];
      if (freeU && node === u) continue;
      const place = i - ranks.start[r];
      const a = freeU && place > skipU ? place - 1 : place;
      for (let j = down.start[node]; j < down.start[node + 1]; j++) {
        const q = position[down.item[j]];
        if (freeV && q === skipV) continue;
        const b = freeV && q > skipV ? q - 1 : q;
        // Ends right of a, places up to b; and ends up to a (not a itself unless a slot), places right of b.
        const lastBelow = freeV ? b : b - 1;
        const lastAbove = freeU ? a : a - 1;
        addRectangle(table, columns, a + 1, rows - 1, 0, lastBelow);
        addRectangle(table, columns, 0, lastAbove, b + 1, columns - 1);
      }
    }
    for (let i = 0; i < rows; i++) {
      for (let j = 1; j < columns; j++) table[i * columns + j] += table[i * columns + j - 1];
    }
    for (let i = 1; i < rows; i++) {
      for (let j = 0; j < columns; j++) table[i * columns + j] += table[(i - 1) * columns + j];
    }
    this.left -= 2 * rows * columns;
    return table;
  }

  private move(v: number, slot: number): void {
    const { order, position } = this;
    const { rank, ranks } = this.layered;
    const start = ranks.start[rank[v]];
    const step = slot > position[v] ? 1 : -1;
    for (let p = position[v]; p !== slot; p += step) {
      order[start + p] = order[start + p + step];
      position[order[start + p]] = p;
    }
    order[start + slot] = v;
    position[v] = slot;
  }
}

/** Add one to a rectangle of a table by its corners; prefix sums then fill it. */
function addRectangle(
  table: Float64Array,
  columns: number,
  top: number,
  bottom: number,
  first: number,
  last: number,
): void {
  if (top > bottom || first > last) return;
  const rows = table.length / columns;
  table[top * columns + first]++;
  if (last + 1 < columns) table[top * columns + last + 1]--;
  if (bottom + 1 < rows) table[(bottom + 1) * columns + first]--;
  if (bottom + 1 < rows && last + 1 < columns) table[(bottom + 1) * columns + last + 1]++;
}
