import { type Counter, crossings, makeCounter } from "./crossings";
import type { Layered } from "./dummies";
import { reinsertRuns } from "./reinsert";
import { sift } from "./sift";
import { smooth } from "./smooth";
import { breadthFirst, depthFirst } from "./start";
import { positions, sweep } from "./sweep";
import { greedySwitch } from "./switch";

/** The effort for improvement. */
export interface Effort {
  visits: number;
  /** Elementary steps of reinsertion. */
  steps: number;
  /** The number of equally good orders to keep for the caller. */
  choices: number;
}

/** For a graph without boxes. */
const FULL_EFFORT: Effort = { visits: 30_000, steps: 1_200_000, choices: 6 };

/** In larger graphs (nodes and dummies), reinsertion everywhere takes too long. */
const LARGE = 8_000;

/** From this size on, even sweeps take too long. */
const HUGE = 100_000;

/** The most node visits of smoothing. */
const SMOOTHING = 4_000_000;

const CHOICE_SIZE = 800;

/** With more crossings than this per node or dummy, sweeps do not see enough of the whole. */
const TANGLED = 1;

/**
 * The nodes by rank, from left to right, with few crossings; the best order or several. Two starts are roughly
 * improved, then swept while the effort lasts, the better one first.
 */
export function orderRanks(layered: Layered, effort = FULL_EFFORT): Int32Array[] {
  const search = new Search(layered, effort);
  const starts = [() => depthFirst(layered), () => breadthFirst(layered)];
  const tried: { order: Int32Array; count: number }[] = [];
  for (const start of starts) {
    const order = start();
    const count = search.rough(order);
    if (count > TANGLED * layered.size) {
      search.untangle(start());
      return search.tidy();
    }
    // An order that two starts agree on is rarely improved.
    const isAgreed = count === search.fewest && tried[0]?.count === count;
    tried.push({ order, count });
    if ((count === 0 || isAgreed) && layered.size > CHOICE_SIZE) return search.tidy();
  }
  // Sorting is stable: on a tie, the start that follows the input comes first.
  tried.sort((a, b) => a.count - b.count);
  for (const { order } of tried) {
    if (search.fewest === 0 || search.isSpent()) break;
    search.improve(order);
  }
  return search.tidy();
}

/** The best order so far, and the remaining effort. */
class Search {
  best: Int32Array[] = [];
  fewest = Infinity;
  private sweeps: number;
  private steps: number;
  private readonly counter: Counter;

  constructor(
    private readonly layered: Layered,
    private readonly effort: Effort,
  ) {
    this.counter = makeCounter(layered);
    this.sweeps = Math.max(layered.size > HUGE ? 2 : 5, effort.visits / layered.size);
    this.steps = effort.steps;
  }

  isSpent(): boolean {
    return this.sweeps <= 0;
  }

  /** A start's crossings after one sweep. The start without a sweep may be better, so try that too. */
  rough(order: Int32Array): number {
    const { layered } = this;
    const position = positions(layered, order);
    greedySwitch(layered, order, position, 2);
    const count = this.keep(order, position);
    if (count === 0) return 0;
    if (layered.size <= LARGE && count <= TANGLED * layered.size) {
      const copy = order.slice();
      if (this.reinsert(copy, position.slice(), 0.15) === 0) return 0;
    }
    sweep(layered, order, position, true, false);
    greedySwitch(layered, order, position, 3);
    return this.keep(order, position);
  }

  /** For tangled graphs: smoothing, which leaves few large faults for sweeps and many small ones for sifting. */
  untangle(order: Int32Array): void {
    const { layered } = this;
    smooth(layered, order, Math.min(40, Math.ceil(SMOOTHING / layered.size)));
    const position = positions(layered, order);
    greedySwitch(layered, order, position, 10);
    this.keep(order, position);
    this.sweepOn(order, position, 2);
    const [best] = this.best;
    const place = positions(layered, best);
    this.steps -= sift(layered, best, place, this.steps / 4);
    this.fewest = crossings(layered, best, place, this.counter);
  }

  /** Sweep until it stops helping, then reinsert and switch in turn. */
  improve(order: Int32Array): void {
    const position = positions(this.layered, order);
    const kept = this.sweepOn(order, position, 3);
    let count = crossings(this.layered, kept, positions(this.layered, kept), this.counter);
    for (let k = 0; k < 6 && count > 0; k++) {
      const now = this.reinsert(kept, positions(this.layered, kept), 0.5);
      if (now >= count) break;
      count = now;
    }
  }

  /** Sweep and switch until `patience` rounds in a row do not help; returns the best order. */
  private sweepOn(order: Int32Array, position: Int32Array, patience: number): Int32Array {
    let kept = order.slice();
    let count = Infinity;
    for (let k = 0, stale = 0; k < 12 && stale < patience && count > 0 && this.sweeps-- > 0; k++) {
      sweep(this.layered, order, position, k % 2 === 1, k % 4 < 2);
      greedySwitch(this.layered, order, position, 3);
      stale++;
      const now = this.keep(order, position);
      if (now >= count) continue;
      count = now;
      kept = order.slice();
      stale = 0;
    }
    return kept;
  }

  /** The best orders, with hanging runs next to their siblings. */
  tidy(): Int32Array[] {
    if (this.layered.size > LARGE) return this.best;
    return this.best.map((best) => {
      const order = best.slice();
      const count = this.reinsert(order, positions(this.layered, order), 0.5);
      return count <= this.fewest ? order : best;
    });
  }

  /** Reinsert with a share of the remaining effort, then switch; returns the crossings. */
  private reinsert(order: Int32Array, position: Int32Array, share: number): number {
    const effort = this.steps * share;
    this.steps -= effort - reinsertRuns(this.layered, order, position, effort);
    greedySwitch(this.layered, order, position, 3);
    return this.keep(order, position);
  }

  private hasRoom(): boolean {
    return this.layered.size <= CHOICE_SIZE && this.best.length < this.effort.choices;
  }

  private keep(order: Int32Array, position: Int32Array): number {
    const count = crossings(this.layered, order, position, this.counter);
    if (count < this.fewest) {
      this.fewest = count;
      this.best = [order.slice()];
    } else if (count === this.fewest && this.hasRoom()) {
      const isNew = this.best.every((other) => other.some((v, i) => v !== order[i]));
      if (isNew) this.best.push(order.slice());
    }
    return count;
  }
}
