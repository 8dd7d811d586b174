import { fewText } from "../text/gradient";
import { counted, formatCount } from "../text/number";
import { formatShape, oneLine, shortenMiddle } from "../text/shorten";
import type { FewModel, GraphModel, GrownModel, NodeModel, NodeState, RunModel } from "../wire";
import { isOver, type Progress, passedIn, type Recording, stateAt } from "./recording";

/** A node's state in words: "running: step 3 of 7". */
export function describeState(progress: Progress, node: number): string {
  const { recording, cursor } = progress;
  const state: NodeState = stateAt(recording, node, cursor);
  const step = numberOf(recording, recording.step[node]);
  switch (state) {
    case "running":
      return isOver(progress) ? `done: it ran in ${step}` : `running: ${step}`;
    case "done":
      return `done: it ran in ${step}`;
    case "ready":
      return `ready: all its gradients are here, it runs in ${step}`;
    case "waiting":
      return `waiting for gradients: it runs in ${step}`;
    case "not reached":
      return recording.run?.ended === "stopped"
        ? "not reached: backward stopped before it ran"
        : "not reached: this backward brings no gradient here";
  }
}

/** The run's position in words: before the running node, its name, and the changes. */
interface Position {
  before: string;
  /** The node of the last step with its name, for a button; null for none. */
  running: { node: number; text: string } | null;
  /** The changes: the name of a `.grad` and its numbers, or "" and a plain sentence. */
  changes: [name: string, words: string][];
  isOver: boolean;
  /** Whether the pass gave every leaf a gradient of zeros. */
  isZero?: boolean;
}

/** The most changes to name. */
const MOST_NAMED = 3;

/** The bar's words: "step 3 of 6", "pred", "passes −12 on to ×, and −12 to b"; or a finished pass' `.grad` values. */
export function position(progress: Progress, graph: GraphModel | null): Position {
  const { recording, cursor } = progress;
  const { steps, total, run, stored } = recording;
  if (isOver(progress)) {
    const grown = [...stored.values()];
    const changes = grown.slice(0, MOST_NAMED).map((one) => grownWords(recording, one));
    if (grown.length > MOST_NAMED) changes.push(["", `and ${grown.length - MOST_NAMED} more`]);
    const before = `backward done · ${counted(total, "step")}`;
    const zeros = zerosOf(recording);
    if (zeros > 0)
      changes.unshift([
        "",
        `${zeros} of ${counted(grown.length, "gradient")} ${zeros === 1 ? "is" : "are"} 0`,
      ]);
    return {
      before,
      running: null,
      changes,
      isOver: true,
      isZero: zeros > 0 && zeros === grown.length,
    };
  }
  const step = steps[cursor - 1];
  if (!step) {
    const next = steps.find(({ inner }) => inner === 0);
    const before = `before ${stepOf(1, total)}${next ? `: press › to run ${oneLine(next.op)}` : ""}`;
    return { before, running: null, changes: [], isOver: false };
  }
  const { node, name, op, accumulated } = step;
  const before = numberOf(recording, cursor);
  if (step.inner > 0 && graph) {
    const changes: [string, string][] = callGives(recording, graph, node).map((parts) => [
      "",
      parts,
    ]);
    return {
      before,
      running: { node, text: boardName(graph.nodes[node]) },
      changes,
      isOver: false,
    };
  }
  const changes: [string, string][] = [];
  const grown = stored.get(node);
  const passed = graph ? passedOn(recording, graph, node) : "";
  if (passed !== "") changes.push(["", `passes ${passed}`]);
  if (accumulated !== null)
    changes.push(grown ? grownWords(recording, grown) : ["", `adds to ${short(accumulated)}`]);
  if (cursor === steps.length && run?.ended === "stopped")
    changes.push(["", "backward stopped here"]);
  let text =
    changes.length > 0 && graph?.nodes[node] ? boardName(graph.nodes[node]) : plain(op, name);
  // A leaf only adds to its .grad, whose name includes the leaf's.
  if (changes[0]?.[0] === `${text}.grad`) {
    text = changes[0][0];
    changes[0] = ["", changes[0][1]];
  }
  return { before, running: { node, text }, changes, isOver: false };
}

/** The number of leaves that a finished pass gave a gradient of zeros; 0 if that of some is unknown. */
function zerosOf({ stored, gradients }: Recording): number {
  const norms = [...stored.keys()].map((node) => gradients.get(node)?.norm ?? null);
  return norms.includes(null) ? 0 : norms.filter((norm) => norm === 0).length;
}

/** The same as one text, for a screen reader. */
export function positionText(progress: Progress, graph: GraphModel | null): string {
  const { before, running, changes } = position(progress, graph);
  const parts = changes.map(([name, words]) => (name === "" ? words : `${name} ${words}`));
  const who = running ? `: ${running.text}` : "";
  return `${before}${who}${parts.length > 0 ? `, ${parts.join(", ")}` : ""}`;
}

/** "w.grad" and "4 → 16". */
function grownWords({ steps, step }: Recording, grown: GrownModel) {
  const { node, before, values, norm, changed, now } = grown;
  const name = steps[step[node] - 1]?.accumulated ?? ".grad";
  const was = before === null ? "None" : fewText(before);
  const since = changed ? `, now ${now === null ? "None" : fewText(now)}` : "";
  return [short(name), `${was} → ${gradientWords({ values, norm })}${since}`] as [string, string];
}

/** "−12 on to ×, and −12 to b"; "" if no outgoing gradient is known. */
function passedOn({ run, passed }: Recording, { nodes, edges }: GraphModel, node: number): string {
  return listed(
    (passed.get(node) ?? []).map((i) => {
      const target = nodes[edges[run?.edges[i] ?? 0].target];
      return `${flowedText(run, i)} ${target.kind === "leaf" ? "to" : "on to"} ${boardName(target)}`;
    }),
  );
}

/** "passes −12 on to ×", or "gives −12 for b" if the node around it passes that on; else its result. */
function callGives(recording: Recording, graph: GraphModel, call: number): string[] {
  const { run, passed } = recording;
  const { nodes, edges } = graph;
  const on = passedOn(recording, graph, call);
  const ends = (passed.get(nodes[call].inside ?? call) ?? []).flatMap((i) => {
    const { via, target } = edges[run?.edges[i] ?? 0];
    return via === call ? [`${flowedText(run, i)} for ${boardName(nodes[target])}`] : [];
  });
  const parts = [on && `passes ${on}`, ends.length > 0 && `gives ${listed(ends, "for")}`];
  const found = parts.filter((one) => typeof one === "string" && one !== "") as string[];
  if (found.length > 0) return found;
  const { value, shape } = nodes[call];
  if (value !== null) return [`gives ${fewText({ values: value, norm: null })}`];
  return shape === null ? [] : [`gives ${formatShape(shape)}`];
}

function flowedText(run: RunModel | null, i: number): string {
  return gradientWords(run ? passedIn(run, i) : { values: null, norm: null });
}

/** A gradient; one without numbers, as in a plan, has only a name. */
function gradientWords(few: FewModel): string {
  return few.values === null && few.norm === null ? "a gradient" : fewText(few);
}

/** The first items, and the number of the others. */
function listed(all: readonly string[], word = "to"): string {
  const named = all.slice(0, MOST_NAMED);
  if (all.length > MOST_NAMED) named.push(`${word} ${all.length - MOST_NAMED} more`);
  return named.length < 2
    ? named.join("")
    : `${named.slice(0, -1).join(", ")}, and ${named.at(-1)}`;
}

/** A node's name on a board: "+ pred", "×", "b". */
function boardName({ kind, sign, name, op, label }: NodeModel): string {
  if (kind === "leaf") return short(label);
  const called = sign ?? op;
  return short(name === null ? called : `${called} ${name}`);
}

function plain(op: string, name: string | null): string {
  return name === null ? oneLine(op) : `${oneLine(op)} ${short(name)}`;
}

/** "step 3 of 7"; for a call "step 3 of 7, call 2 of 18". */
function numberOf({ steps, total }: Recording, number: number): string {
  const { of, inner, calls } = steps[number - 1] ?? { of: number, inner: 0, calls: 0 };
  const step = stepOf(of, total);
  return inner > 0 ? `${step}, call ${formatCount(inner)} of ${formatCount(calls)}` : step;
}

function stepOf(step: number, total: number): string {
  return `step ${formatCount(step)} of ${formatCount(total)}`;
}

const MOST_CHARACTERS = 40;

/** User text for the one line of the bar. */
function short(text: string): string {
  return shortenMiddle(oneLine(text), MOST_CHARACTERS, (part) => part.length);
}
