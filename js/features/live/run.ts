import { listsBy } from "../../maps";
import { CALLS } from "./calls";
import type { Arguments, Call } from "./pointwise";
import { type Dtype, memory, type Numbers, numbersOf, type Tensor, write } from "./tensors";

type JsonNumber = number | string;

/** The recorded program that Python wrote; see `gradwalk.features.live.program`. */
export interface ProgramModel {
  storages: { dtype: Dtype; size: number; numbers: JsonNumber[] | null }[];
  views: [storage: number, shape: number[], strides: number[], offset: number][];
  calls: { name: string; args: Record<string, unknown>; outputs: (number | null)[] }[];
  guards: {
    view: number;
    after: number;
    numbers: JsonNumber[];
    truth: boolean;
    line: string | null;
  }[];
  inputs: InputModel[];
  values: { node: number; view: number; after: number }[];
  edges: { at: number; view: number }[];
  arrived: { at: number; view: number }[];
  note: string | null;
}

export interface InputModel {
  node: number;
  name: string | null;
  leaf: boolean;
  view: number;
  grad: number | null;
  before: JsonNumber[] | null;
  /** Least, most and step of each number; null without controls. */
  ranges: [number, number, number][] | null;
}

type Guard = ProgramModel["guards"][number];

/** Another gradient along an edge: the view that it has, and its new numbers. */
export interface Change {
  view: number;
  numbers(now: readonly number[]): readonly number[];
}

interface Prepared {
  call: Call;
  args: Arguments;
  outputs: (Tensor | null)[];
}

/** A program that runs again with other numbers: a pure function of its inputs. */
export class Program {
  private readonly tensors: Tensor[];
  private readonly prepared: Prepared[];
  private readonly stores: Numbers[];
  /** Memory that a run changes after the start, and its numbers then. */
  private readonly starts: [Numbers, Numbers][];
  /** The values whose memory is written again after they were made, in order. */
  private readonly overwritten: ProgramModel["values"];
  /** The numbers of values that later calls overwrite, by node. */
  private readonly kept = new Map<number, number[]>();

  constructor(readonly model: ProgramModel) {
    const { storages, views, calls } = model;
    this.stores = storages.map(({ dtype, size, numbers }) => {
      const store = memory(dtype, size);
      numbers?.forEach((one, i) => {
        store[i] = numberOf(one);
      });
      return store;
    });
    this.tensors = views.map(([storage, shape, strides, offset]) => {
      const { dtype } = storages[storage];
      return { data: this.stores[storage], dtype, shape, strides, offset };
    });
    this.prepared = calls.map(({ name, args, outputs }) => ({
      call: callOf(name),
      args: this.given(args) as Arguments,
      outputs: outputs.map((view) => (view === null ? null : this.tensors[view])),
    }));
    const written = new Set(
      this.prepared.flatMap(({ outputs }) => outputs.map((one) => one?.data)),
    );
    this.starts = this.stores.flatMap((store, i): [Numbers, Numbers][] =>
      storages[i].numbers && written.has(store) ? [[store, store.slice()]] : [],
    );
    const last = new Map<number, number>();
    calls.forEach(({ outputs }, i) => {
      for (const view of outputs) if (view !== null) last.set(views[view][0], i + 1);
    });
    this.overwritten = model.values
      .filter(({ view, after }) => (last.get(views[view][0]) ?? 0) > after)
      .sort((a, b) => a.after - b.after);
  }

  /** The numbers of a view after a run, in row-major order. */
  read(view: number): number[] {
    return numbersOf(this.tensors[view]);
  }

  shapeOf(view: number): readonly number[] {
    return this.tensors[view].shape;
  }

  dtypeOf(view: number): Dtype {
    return this.tensors[view].dtype;
  }

  /** Set the numbers of an input. */
  set(view: number, numbers: readonly number[]): void {
    write(this.tensors[view], numbers);
  }

  /** The numbers of a node's value, as they were when it was made. */
  value({ node, view }: { node: number; view: number }): number[] {
    return this.kept.get(node) ?? this.read(view);
  }

  /**
   * Run all calls; `changes` are made right after the call that gives their view. Returns the guard that does not
   * hold: the program takes another way there.
   */
  run(changes: readonly Change[] = []): Guard | null {
    const { guards } = this.model;
    const later = listsBy(changes, ({ view }) => this.givenBy(view));
    for (const [store, start] of this.starts) store.set(start as never);
    this.kept.clear();
    let broken: Guard | null = null;
    let [guard, value] = [0, 0];
    const order = this.overwritten;
    for (let i = 0; i <= this.prepared.length; i++) {
      for (; guard < guards.length && guards[guard].after <= i; guard++)
        if (!this.holds(guards[guard])) broken ??= guards[guard];
      for (; value < order.length && order[value].after <= i; value++) {
        const { node, view } = order[value];
        this.kept.set(node, this.read(view));
      }
      if (i === this.prepared.length) break;
      const { call, args, outputs } = this.prepared[i];
      call(args, outputs);
      for (const { view, numbers } of later.get(i) ?? []) this.set(view, numbers(this.read(view)));
    }
    return broken;
  }

  /** The call that gives a view. */
  private givenBy(view: number): number {
    return this.model.calls.findIndex(({ outputs }) => outputs.includes(view));
  }

  private holds({ view, numbers, truth }: Guard): boolean {
    return this.read(view).every((now, i) => {
      const before = numberOf(numbers[i]);
      return truth ? (now !== 0) === (before !== 0) : Object.is(now + 0, before + 0);
    });
  }

  private given(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.given(one));
    if (typeof value !== "object" || value === null) return value;
    const { t, n, ...rest } = value as Record<string, unknown>;
    if (typeof t === "number") return this.tensors[t];
    if (typeof n === "string") return numberOf(n);
    return Object.fromEntries(Object.entries(rest).map(([name, one]) => [name, this.given(one)]));
  }
}

/** A number as Python's JSON has it. */
export function numberOf(value: JsonNumber): number {
  if (typeof value === "number") return value;
  return Number(value.replace("inf", "Infinity"));
}

function callOf(name: string): Call {
  const found = CALLS[name];
  if (!found) throw new Error(`This page cannot compute ${name}. Write it again with to_html().`);
  return found;
}
