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
import { type InputModel, numberOf, Program, type ProgramModel } from "./run";

/** The arrays of one tensor, in row-major order. */
export interface Arrays {
  value: number[];
  grad: number[] | null;
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
    for (const { id, name } of saved.graph.nodes) if (name !== null) this.names.set(id, name);
    this.run();
  }

  nameOf({ node, name }: InputModel): string {
    return name ?? this.names.get(node) ?? `node ${node}`;
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

  /** Name -> arrays, for every named tensor that the page computes. */
  arrays(): Record<string, Arrays> {
    const found: Record<string, Arrays> = Object.create(null);
    const add = (node: number, numbers: number[]) => {
      const name = this.names.get(node);
      if (name !== undefined && !(name in found))
        found[name] = { value: numbers, grad: this.gradient(node) };
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
    const { graph, run } = this.saved;
    const place = run?.edges.findIndex((edge) => {
      const { source: from, arg_nr } = graph.edges[edge];
      return from === source && arg_nr === arg;
    });
    return this.model.edges.find(({ at }) => at === place)?.view;
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

  /** The finite differences of the single numbers that are leaves, in double precision. */
  differences(): { node: number; name: string; value: number; gradient: number }[] {
    const value = this.model.values.find(({ node }) => node === this.saved.graph.roots[0]?.node);
    if (this.loss === null || !value) return [];
    const storages = this.model.storages.map((one) =>
      one.dtype === "float32" ? { ...one, dtype: "float64" as const } : one,
    );
    const double = new Program({ ...this.model, storages, guards: [] });
    for (const input of this.inputs) double.set(input.view, this.read(input));
    const at = (view: number, number: number) => {
      double.set(view, [number]);
      double.run();
      return double.value(value)[0];
    };
    return this.inputs.flatMap((input) => {
      const [now, ...more] = this.read(input);
      const view = this.gradViews.get(input.node);
      if (!input.leaf || more.length > 0 || view === undefined) return [];
      const step = 1e-6 * Math.max(1, Math.abs(now));
      const difference = (at(input.view, now + step) - at(input.view, now - step)) / (2 * step);
      at(input.view, now);
      const [gradient] = this.program.read(view);
      return [{ node: input.node, name: this.nameOf(input), value: difference, gradient }];
    });
  }
}

function indexOf(at: number, shape: readonly number[]): number[] {
  const found: number[] = [];
  let rest = at;
  for (const size of [...shape].reverse()) {
    found.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return found;
}
