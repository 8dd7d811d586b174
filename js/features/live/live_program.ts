import type {
  ContributionModel,
  DetailsModel,
  FewModel,
  RunModel,
  SavedGraphModel,
  TensorSummary,
  Values,
} from "../../wire";
import { fewOf, jsonNumber, summaryOf, valuesOf } from "./numbers";
import { type Change, type InputModel, numberOf, Program, type ProgramModel } from "./run";

/** The arrays of one tensor, in row-major order. */
export interface Arrays {
  value: number[] | null;
  grad: number[] | null;
}

/** The finite differences of a leaf, beside the gradient of this pass. */
interface Difference {
  node: number;
  name: string;
  found: readonly number[];
  gradient: readonly number[];
}

/** The numbers of a gradient, and its shape. */
export interface Flow {
  numbers: readonly number[];
  shape: readonly number[];
}

/** A number that is a control: which input, and which of its numbers. */
export interface Place {
  input: InputModel;
  at: number;
  label: string;
}

/** The program of a page, and what its picture shows of it. */
export class LiveProgram {
  private readonly program: Program;
  private readonly names = new Map<number, string>();
  readonly inputs: readonly InputModel[];
  private readonly start: readonly number[][];
  private double: Program | null = null;
  private readonly gradViews: ReadonlyMap<number, number>;
  /** Whether the numbers are other than the recorded ones. */
  isChanged = false;
  /** The line whose branch the numbers leave; null while the program takes the recorded one. */
  elsewhere: { line: string | null } | null = null;

  constructor(
    readonly model: ProgramModel,
    private readonly saved: SavedGraphModel,
  ) {
    this.program = new Program(model);
    this.inputs = model.inputs;
    this.start = this.inputs.map(({ view }) => this.program.read(view));
    this.gradViews = new Map(model.arrived.map(({ at, view }) => [at, view]));
    const { nodes, roots } = saved.graph;
    for (const { id, name } of nodes) if (name !== null) this.names.set(id, name);
    const [root] = roots;
    if (roots.length === 1 && !this.names.has(root.node))
      this.names.set(root.node, root.name ?? "output");
    this.run();
  }

  nameOf({ node, name }: InputModel): string {
    return name ?? this.names.get(node) ?? `node ${node}`;
  }

  hasName(input: InputModel): boolean {
    return input.name !== null || this.names.has(input.node);
  }

  /** All numbers with controls, in the order of the inputs. */
  places(): Place[] {
    return this.inputs.flatMap((input) => {
      const shape = this.program.shapeOf(input.view);
      return (input.ranges ?? []).map((_, at) => {
        const index = indexOf(at, shape);
        const place = index.length > 0 ? `[${index.join(", ")}]` : "";
        return { input, at, label: this.nameOf(input) + place };
      });
    });
  }

  shapeOf(view: number): readonly number[] {
    return this.program.shapeOf(view);
  }

  read(input: InputModel): number[] {
    return this.program.read(input.view);
  }

  write(input: InputModel, numbers: readonly number[]): void {
    this.program.set(input.view, numbers);
    this.isChanged = true;
  }

  /** Go back to the recorded numbers. */
  reset(): void {
    this.inputs.forEach(({ view }, i) => {
      this.program.set(view, this.start[i]);
    });
    this.isChanged = false;
  }

  isStart(input: InputModel): boolean {
    const start = this.start[this.inputs.indexOf(input)];
    return this.read(input).every((one, i) => Object.is(one, start[i]));
  }

  run(): void {
    this.elsewhere = this.program.run();
  }

  /** What `read` finds after a run with other gradients. */
  changed<T>(changes: readonly Change[], read: () => T): T {
    this.program.run(changes);
    try {
      return read();
    } finally {
      this.program.run();
    }
  }

  /** The view of the gradient along an edge of the graph; undefined where none flows. */
  flowAt(edge: number): number | undefined {
    const place = this.saved.run?.edges.indexOf(edge) ?? -1;
    return this.model.edges.find(({ at }) => at === place)?.view;
  }

  /** The gradient that comes to a node in this pass; null where none is known. */
  arrivedAt(node: number): Flow | null {
    const view = this.gradViews.get(node);
    return view === undefined ? null : this.flow(view);
  }

  /** The numbers and the shape of a view. */
  flow(view: number): Flow {
    return { numbers: this.program.read(view), shape: this.program.shapeOf(view) };
  }

  /** The name of the first output. */
  get lossName(): string {
    return this.names.get(this.saved.graph.roots[0].node) ?? "output";
  }

  /** The one number of the only output; null where there are several. */
  get loss(): number | null {
    const { roots } = this.saved.graph;
    const value = this.model.values.find(({ node }) => node === roots[0]?.node);
    if (roots.length !== 1 || !value) return null;
    const numbers = this.program.value(value);
    return numbers.length === 1 ? numbers[0] : null;
  }

  /** The gradient that a node receives; of a leaf, what its `.grad` holds after the pass. */
  gradient(node: number): number[] | null {
    const view = this.gradViews.get(node);
    if (view === undefined) return null;
    const came = this.program.read(view);
    const before = this.inputs.find((input) => input.node === node)?.before;
    if (!before || before.length !== came.length) return came;
    const round = this.program.dtypeOf(view) === "float32" ? Math.fround : (one: number) => one;
    return came.map((one, i) => round(one + numberOf(before[i])));
  }

  /** The numbers of a node's value; null where the page does not compute it. */
  valueAt(node: number): number[] | null {
    const value = this.model.values.find((one) => one.node === node);
    return value ? this.program.value(value) : null;
  }

  /** Name -> arrays, for every named tensor that the page computes; null where a quiz asks. */
  arrays(
    what: "grad" | "value" | null = null,
    hidden: ReadonlySet<number> = new Set(),
  ): Record<string, Arrays> {
    const found: Record<string, Arrays> = Object.create(null);
    const add = (node: number, numbers: number[]) => {
      const name = this.names.get(node);
      if (name === undefined || name in found) return;
      const hides = (one: "grad" | "value") => what === one && hidden.has(node);
      found[name] = {
        value: hides("value") ? null : numbers,
        grad: hides("grad") ? null : this.gradient(node),
      };
    };
    for (const value of this.model.values) add(value.node, this.program.value(value));
    for (const { node, view } of this.inputs) add(node, this.program.read(view));
    return found;
  }

  /** The values of all nodes, as the picture takes them. */
  values(): (Values | null)[] {
    const found = this.saved.graph.nodes.map(({ value }) => value);
    for (const value of this.model.values)
      found[value.node] = valuesOf(this.program.value(value), this.program.shapeOf(value.view));
    for (const { node, view, leaf } of this.inputs)
      if (!leaf) found[node] = valuesOf(this.program.read(view), this.program.shapeOf(view));
    return found;
  }

  private few(view: number): FewModel {
    return fewOf(this.program.read(view), this.program.shapeOf(view));
  }

  /** The recorded pass with the gradients of now. */
  runModel(run: RunModel): RunModel {
    const values = run.values.slice();
    const norms = run.norms.slice();
    for (const { at, view } of this.model.edges)
      ({ values: values[at], norm: norms[at] } = this.few(view));
    const arrived = run.arrived.map((one) => {
      const view = this.gradViews.get(one.node);
      return view === undefined ? one : { ...one, ...this.few(view) };
    });
    const grads = run.grads.map((one) => {
      const view = this.gradViews.get(one.node);
      const grad = this.gradient(one.node);
      if (view === undefined || !grad) return one;
      const now = fewOf(grad, this.program.shapeOf(view));
      return { ...one, ...now, changed: false, now: null };
    });
    return { ...run, values, norms, arrived, grads, marks: [] };
  }

  /** The details of a node with the numbers of now; parts that the page does not compute are left out. */
  details(details: DetailsModel): DetailsModel {
    if (!this.isChanged) return details;
    const { id } = details;
    const value = this.model.values.find(({ node }) => node === id);
    const input = this.inputs.find(({ node }) => node === id);
    const view = value?.view ?? input?.view;
    const numbers = value ? this.program.value(value) : input && this.program.read(input.view);
    const shown = (before: TensorSummary | null, of: number | undefined): TensorSummary | null =>
      before && of !== undefined
        ? summaryOf(before, this.program.read(of), this.program.shapeOf(of))
        : before;
    const grad = this.gradient(id);
    const gradView = this.gradViews.get(id);
    return {
      ...details,
      value:
        details.value && numbers && view !== undefined
          ? { ...details.value, ...summaryOf(details.value, numbers, this.program.shapeOf(view)) }
          : null,
      saved: [],
      saved_count: 0,
      grad:
        details.grad && grad && gradView !== undefined
          ? summaryOf(details.grad, grad, this.program.shapeOf(gradView))
          : details.grad,
      grad_output:
        details.grad_output?.length === 1
          ? [shown(details.grad_output[0], gradView)]
          : details.grad_output,
      grad_input: this.gradInput(details, shown),
      contributions: this.contributions(details, shown),
      formula: details.formula.map((one) => ({ ...one, numbers: null, checked: false })),
      chain: this.chain(details),
      explained: null,
    };
  }

  /** The view of the gradient along an edge that a node passes on. */
  private passed(source: number, arg: number | null): number | undefined {
    const { edges } = this.saved.graph;
    const found = this.saved.run?.edges.find(
      (edge) => edges[edge].source === source && edges[edge].arg_nr === arg,
    );
    return found === undefined ? undefined : this.flowAt(found);
  }

  private gradInput(
    { id, inputs, grad_input }: DetailsModel,
    shown: (before: TensorSummary | null, view: number | undefined) => TensorSummary | null,
  ) {
    return (
      grad_input?.map((one, i) => shown(one, this.passed(id, inputs[i]?.arg_nr ?? null))) ?? null
    );
  }

  private contributions(
    { contributions }: DetailsModel,
    shown: (before: TensorSummary | null, view: number | undefined) => TensorSummary | null,
  ): ContributionModel[] | null {
    let total: number[] | null = null;
    return (
      contributions?.map((one) => {
        const view = one.consumer === null ? undefined : this.passed(one.consumer, one.arg_nr);
        if (view === undefined) return { ...one, total: null };
        const numbers = this.program.read(view);
        total = total ? total.map((sum, i) => sum + numbers[i]) : numbers;
        const shape = this.program.shapeOf(view);
        return {
          ...one,
          grad: shown(one.grad, view),
          total: one.total && summaryOf(one.total, total, shape),
        };
      }) ?? null
    );
  }

  /** The chain rule with the factors of now, which are known between single numbers. */
  private chain({ chain }: DetailsModel): DetailsModel["chain"] {
    if (!chain) return null;
    const factor = (edge: number): number | null => {
      const { source, arg_nr } = this.saved.graph.edges[edge];
      const [view, came] = [this.passed(source, arg_nr), this.gradViews.get(source)];
      if (view === undefined || came === undefined) return null;
      const [passed, grad] = [this.program.read(view), this.program.read(came)];
      if (passed.length !== 1 || grad.length !== 1 || grad[0] === 0) return null;
      return passed[0] / grad[0];
    };
    const paths = chain.paths.map(({ factors }) => {
      const numbers = factors.map(({ edge }) => factor(edge));
      const isKnown = numbers.every((one) => one !== null);
      const product = isKnown ? numbers.reduce<number>((all, one) => all * (one ?? 0), 1) : null;
      return {
        factors: factors.map((one, i) => {
          const value = numbers[i];
          return { ...one, value: value === null ? null : jsonNumber(value) };
        }),
        written: null,
        product: product === null ? null : jsonNumber(product),
      };
    });
    const all = paths.map(({ product }) => product);
    const isSum = all.length === chain.total_paths && all.every((one) => typeof one === "number");
    const sum = isSum ? jsonNumber(all.reduce<number>((some, one) => some + Number(one), 0)) : null;
    return { ...chain, paths, written: null, sum };
  }

  /** The finite differences of the leaves with controls, in double precision. */
  differences(): Difference[] {
    const value = this.model.values.find(({ node }) => node === this.saved.graph.roots[0]?.node);
    if (this.loss === null || !value) return [];
    const double = this.inDouble();
    for (const input of this.inputs) double.set(input.view, this.read(input));
    const at = (view: number, numbers: readonly number[]) => {
      double.set(view, numbers);
      double.run();
      return double.value(value)[0];
    };
    return this.checked().map((input) => {
      const { view } = input;
      const now = this.read(input);
      const found = now.map((number, i) => {
        const step = 1e-6 * Math.max(1, Math.abs(number));
        const moved = (by: number) => now.map((one, j) => (i === j ? one + by : one));
        return (at(view, moved(step)) - at(view, moved(-step))) / (2 * step);
      });
      at(view, now);
      const gradient = this.arrivedAt(input.node)?.numbers ?? [];
      return { node: input.node, name: this.nameOf(input), found, gradient };
    });
  }

  /** How many numbers the finite differences change. */
  get checkedCount(): number {
    return this.checked().reduce((sum, input) => sum + this.read(input).length, 0);
  }

  private checked(): InputModel[] {
    return this.inputs.filter(
      ({ leaf, ranges, node }) => leaf && ranges !== null && this.gradViews.has(node),
    );
  }

  private inDouble(): Program {
    const storages = this.model.storages.map((one) =>
      one.dtype === "float32" ? { ...one, dtype: "float64" as const } : one,
    );
    this.double ??= new Program({ ...this.model, storages, guards: [] });
    return this.double;
  }
}

/** The index of a number in row-major order. */
export function indexOf(at: number, shape: readonly number[]): number[] {
  const found: number[] = [];
  let rest = at;
  for (const size of [...shape].reverse()) {
    found.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return found;
}
