import type { PackedDtypes, PackedPane, PackedPass } from "../wire";
import { unpackRun, unpackState, unpackSteps } from "./backward";
import { unpackColumn } from "./column";
import { unpackGraph } from "./graph";

const UNPACK: Record<string, (packed: never) => unknown> = {
  graph: unpackGraph,
  state: unpackState,
  steps: unpackSteps,
  run: unpackRun,
  dtypes: (dtypes: PackedDtypes) => ({ ...dtypes, nodes: unpackColumn(dtypes.nodes, "nodes") }),
  panes: (panes: PackedPane[]) =>
    panes.map((pane) => ({ ...pane, graph: unpackGraph(pane.graph) })),
  passes: (passes: PackedPass[]) =>
    passes.map(({ state, steps, run, ...pass }) => ({
      ...pass,
      state: unpackState(state),
      steps: unpackSteps(steps),
      run: run && unpackRun(run),
    })),
};

/** What was unpacked, by what it was packed in: whoever asks again gets the same. */
const known = new WeakMap<object, unknown>();

/** The value of a trait as Python has it, from how it travelled. What is empty travels as it is. */
export function unpackTrait(trait: string, value: unknown): unknown {
  const unpack = UNPACK[trait];
  if (!unpack || !value || Object.keys(value).length === 0) return value;
  if (!known.has(value)) known.set(value, unpack(value as never));
  return known.get(value);
}
