import type { Channel, Traits } from "../channel";
import { listsBy, remembered, whileSame } from "../maps";
import { type Recording, recordingOf, type ShownStep } from "../steps/recording";
import { oneLine, shortenMiddle } from "../text/shorten";
import type {
  GraphModel,
  MergedStepModel,
  PassModel,
  RunModel,
  StepModel,
  TransportModel,
} from "../wire";
import type { CompareChannel } from "./compare_part";
import type { Pane, United } from "./united";

/** Return what reads one recording per pane, null before any backward; kept while Python sends the same. */
export function paneRecordings() {
  const readers = remembered((p: number) =>
    whileSame(
      (
        graph: GraphModel,
        own: PassModel["steps"],
        run: PassModel["run"],
        steps: readonly MergedStepModel[],
      ) => mergedRecording(graph, { steps: own, run }, steps, p),
    ),
  );
  return (
    panes: readonly Pane[],
    passes: readonly PassModel[],
    steps: readonly MergedStepModel[],
  ): (Recording | null)[] =>
    panes.map(({ graph }, p) => {
      const { steps: own, run } = passes[p];
      return run && readers(p)(graph, own, run, steps);
    });
}

/** Whether these passes produced the merged steps. */
export function areMerged(
  steps: readonly MergedStepModel[],
  passes: readonly PassModel[],
): boolean {
  const counts = passes.map(() => 0);
  for (const step of steps) for (const p of step.passes) counts[p] += 1;
  return passes.every((pass, p) => pass.steps.length === counts[p]);
}

/** One pane's pass; `steps` has a hole where only other panes run. */
export function mergedRecording(
  graph: GraphModel,
  pass: Pick<PassModel, "steps" | "run">,
  steps: readonly MergedStepModel[],
  p: number,
): Recording {
  const numbers = steps.flatMap((step, k) => (step.passes.includes(p) ? [k + 1] : []));
  const own = pass.steps;
  const renumbered = own.map((step, i) => ({
    ...step,
    step: numbers[i],
    ready: step.ready === 0 ? 0 : numbers[step.ready - 1],
  }));
  const recording = recordingOf(graph, renumbered, pass.run, false);
  const sparse = new Array<ShownStep>(steps.length);
  for (const step of recording.steps) sparse[step.step - 1] = step;
  return { ...recording, steps: sparse, total: steps.length };
}

/** The merged steps as a graph with one node per step; passes in opposite orders have one step per order. */
export function stepGraph({ graph, panes }: United, steps: readonly MergedStepModel[]): GraphModel {
  const nodes = steps.map((step, id) => ({ ...graph.nodes[step.node], id }));
  const isStatic = panes.every((pane) => pane.graph.static);
  return { ...graph, nodes, edges: [], roots: [], static: isStatic };
}

/** The merged steps in the transport bar's format. */
export function barSteps(
  united: United,
  steps: readonly MergedStepModel[],
  passes: readonly PassModel[],
): StepModel[] {
  const at = united.panes.map(() => 0);
  return steps.map((step, k) => {
    const own = step.passes.map((p) => passes[p].steps[at[p]++]);
    const grows = own.find((one) => (one?.accumulated ?? null) !== null)?.accumulated;
    const where =
      step.passes.length < passes.filter((pass) => pass.steps.length > 0).length
        ? whereWords(step.passes, united.panes)
        : null;
    const words = [grows ? `adds to ${grows}` : (own[0]?.name ?? null), where];
    return {
      step: k + 1,
      node: k,
      op: united.graph.nodes[step.node].op,
      name: words.filter((part) => part !== null).join(", ") || null,
      accumulated: null,
      ready: 0,
    };
  });
}

/** Each sentence once, with labels unless it applies to all graphs. */
export function sentencesOf(
  panes: readonly Pane[],
  notes: readonly (string | null)[],
): string | null {
  if (notes.every((one) => one === notes[0])) return notes[0];
  const label = (p: number) => oneLine(panes[p].label);
  const whose = listsBy(notes.keys(), (p) => notes[p]);
  return Array.from(whose, ([one, ps]) => `${ps.map(label).join(", ")}: ${one}`).join(" ") || null;
}

function whereWords(passes: readonly number[], panes: readonly Pane[]): string {
  if (passes.length > 1) return `in ${passes.length} of ${panes.length} graphs`;
  return `only in ${shortenMiddle(oneLine(panes[passes[0]].label), 18, (part) => part.length)}`;
}

/** The notes of all passes; a note that does not apply to all graphs names its graphs. */
export function transportOf(panes: readonly Pane[], passes: readonly PassModel[]): TransportModel {
  const sentences = (say: (pass: PassModel, p: number) => string | null) =>
    sentencesOf(panes, passes.map(say));
  const started = passes.some((pass) => pass.run !== null);
  return {
    owned: passes.every(({ transport, run }) => transport.owned || run === null),
    note: sentences(({ transport, run }, p) =>
      started && run === null && !panes[p].graph.static
        ? "no backward through this graph has been seen yet."
        : transport.note,
    ),
    blocked: sentences(({ transport }) => transport.blocked),
  };
}

/** The run of a stopped pass without its gradients, because each graph shows its own. */
function whereItStopped(passes: readonly PassModel[]): RunModel | null {
  const run = passes.find((pass) => pass.run?.ended === "stopped")?.run;
  const none = { seeds: [], edges: [], values: [], norms: [], arrived: [], grads: [], marks: [] };
  return run ? { ...run, ...none } : null;
}

/** A channel with which a single graph's stepper steps through the merged passes. */
export function stepperChannel(
  channel: CompareChannel,
  united: () => United | null,
): Pick<Channel, "get" | "set" | "send"> {
  const read = (trait: keyof Traits): unknown => {
    const all = united();
    switch (trait) {
      case "cursor":
        return channel.get("cursor");
      case "_steps":
        return all ? barSteps(all, channel.get("_steps"), channel.get("passes")) : [];
      case "run":
        return all ? whereItStopped(channel.get("passes")) : null;
      case "transport":
        return all ? transportOf(all.panes, channel.get("passes")) : null;
      default:
        return null;
    }
  };
  return {
    get: (trait) => read(trait) as never,
    set(trait, value) {
      if (trait === "cursor") channel.set("cursor", value as number);
    },
    send: (message) => channel.send(message),
  };
}
