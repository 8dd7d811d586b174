import { type Counter, crossings, makeCounter } from "./crossings";
import type { Layered } from "./dummies";
import { reinsertRuns } from "./reinsert";
import { breadthFirst, depthFirst } from "./start";
import { positions, sweep } from "./sweep";
import { greedySwitch } from "./switch";

/** How long to go on improving. */
export interface Effort {
  /** Visits of a node by a sweep. */
  visits: number;
  /** Elementary steps of reinsertion. */
  steps: number;
  /** Orders with equally few crossings to keep, for the caller to choose from. */
  choices: number;
}

/** For a graph that is laid out alone. */
const FULL_EFFORT: Effort = { visits: 30_000, steps: 1_200_000, choices: 6 };

/** From this size on, nodes and dummies, there is no time for more than the two most promising starts. */
const LARGE = 8_000;

/** Up to this size, orders with equally few crossings are all returned, for the caller to choose by their looks. */
const CHOICE_SIZE = 800;

/**
 * The nodes by rank and, within a rank, from left to right, with few crossings; the best order or several.
 * Several starts are roughly improved; the most promising are then swept, as long as the effort lasts.
 */
export function orderRanks(layered: Layered, effort = FULL_EFFORT): Int32Array[] {
  const search = new Search(layered, effort);
  const starts = [
    () => depthFirst(layered, "as given"),
    () => breadthFirst(layered),
    () => depthFirst(layered, "deep last"),
    () => depthFirst(layered, "deep first"),
  ];
  const tried: { order: Int32Array; count: number }[] = [];
  for (const start of layered.size > LARGE ? starts.slice(0, 2) : starts) {
    const order = start();
    tried.push({ order, count: search.rough(order) });
    if (search.fewest === 0 && layered.size > CHOICE_SIZE) break;
  }
  // Sorting is stable: of equals, the start that follows the input comes first.
  tried.sort((a, b) => a.count - b.count);
  for (const { order } of tried) {
    if (search.fewest === 0 || search.isSpent()) break;
    search.improve(order);
  }
  return search.tidy();
}

/** The best order so far, and what finding a better one may still cost. */
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
    this.sweeps = Math.max(5, effort.visits / layered.size);
    this.steps = effort.steps;
  }

  isSpent(): boolean {
    return this.sweeps <= 0;
  }

  /** What a start is worth: its crossings after one sweep. Without sweeps its plan may do even better, so try that. */
  rough(order: Int32Array): number {
    const { layered } = this;
    const position = positions(layered, order);
    greedySwitch(layered, order, position, 2);
    if (this.keep(order, position) === 0) return 0;
    if (layered.size <= LARGE) {
      const copy = order.slice();
      if (this.reinsert(copy, position.slice(), 0.15) === 0) return 0;
    }
    sweep(layered, order, position, true, false);
    greedySwitch(layered, order, position, 3);
    return this.keep(order, position);
  }

  /** Sweeps until they stop helping, then reinsertion and switching in turn. */
  improve(order: Int32Array): void {
    const { layered } = this;
    const position = positions(layered, order);
    let kept = order.slice();
    let count = Infinity;
    for (let k = 0, stale = 0; k < 12 && stale < 3 && count > 0 && this.sweeps-- > 0; k++) {
      sweep(layered, order, position, k % 2 === 1, k % 4 < 2);
      greedySwitch(layered, order, position, 3);
      stale++;
      const now = this.keep(order, position);
      if (now >= count) continue;
      count = now;
      kept = order.slice();
      stale = 0;
    }
    for (let k = 0; k < 6 && count > 0; k++) {
      const now = this.reinsert(kept, positions(layered, kept), 0.5);
      if (now >= count) break;
      count = now;
    }
  }

  /** The best orders, their hanging runs moved next to their siblings. */
  tidy(): Int32Array[] {
    if (this.layered.size > LARGE) return this.best;
    return this.best.map((best) => {
      const order = best.slice();
      const count = this.reinsert(order, positions(this.layered, order), 0.5);
      return count <= this.fewest ? order : best;
    });
  }

  /** Reinsertion with a share of the effort that is left, then switching; returns the crossings. */
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
