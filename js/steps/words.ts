import { fewText } from "../text/gradient";
import { counted, formatCount } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel, GrownModel, NodeModel, NodeState } from "../wire";
import { isOver, type Progress, type Recording, stateAt } from "./recording";

/** Where a node stands, in words: "running: step 3 of 7". */
export function describeState(progress: Progress, node: number): string {
  const { recording, cursor } = progress;
  const state: NodeState = stateAt(recording, node, cursor);
  const step = stepOf(recording.step[node], recording.steps.length);
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

/** Where the run stands: words before the node that runs, its name, and what its step changed. */
interface Position {
  before: string;
  /** The node that the last step ran, as the button that shows it is called; null when none is to be named. */
  running: { node: number; text: string } | null;
  /** What changed: the name of a `.grad` and its numbers, or "" and a plain sentence. */
  changes: [name: string, words: string][];
  isOver: boolean;
}

/** So much of what changed is named. */
const MOST_NAMED = 3;

/** What the bar says: "step 3 of 6", "pred", "passes −12 on to ×, and −12 to b"; or how a finished pass left every `.grad`. */
export function position(progress: Progress, graph: GraphModel | null): Position {
  const { recording, cursor } = progress;
  const { steps, run, stored } = recording;
  const total = steps.length;
  if (isOver(progress)) {
    const grown = [...stored.values()];
    const changes = grown.slice(0, MOST_NAMED).map((one) => grownWords(recording, one));
    if (grown.length > MOST_NAMED) changes.push(["", `and ${grown.length - MOST_NAMED} more`]);
    const before = `backward done · ${counted(total, "step")}`;
    return { before, running: null, changes, isOver: true };
  }
  const step = steps[cursor - 1];
  if (!step) {
    const next = steps[0];
    const before = `before ${stepOf(1, total)}${next ? `: press > to run ${oneLine(next.op)}` : ""}`;
    return { before, running: null, changes: [], isOver: false };
  }
  const { node, name, op, accumulated } = step;
  const changes: [string, string][] = [];
  const grown = stored.get(node);
  const passed = graph ? passedOn(recording, graph, node) : "";
  if (passed !== "") changes.push(["", `passes ${passed}`]);
  if (accumulated !== null)
    changes.push(grown ? grownWords(recording, grown) : ["", `adds to ${short(accumulated)}`]);
  if (cursor === total && run?.ended === "stopped") changes.push(["", "backward stopped here"]);
  let text =
    changes.length > 0 && graph?.nodes[node] ? boardName(graph.nodes[node]) : plain(op, name);
  // A leaf does nothing but add to its .grad, whose name says the leaf's.
  if (changes[0]?.[0] === `${text}.grad`) {
    text = changes[0][0];
    changes[0] = ["", changes[0][1]];
  }
  return { before: stepOf(cursor, total), running: { node, text }, changes, isOver: false };
}

/** The same as one text, for a screen reader. */
export function positionText(progress: Progress, graph: GraphModel | null): string {
  const { before, running, changes } = position(progress, graph);
  const said = changes.map(([name, words]) => (name === "" ? words : `${name} ${words}`));
  const who = running ? `: ${running.text}` : "";
  return `${before}${who}${said.length > 0 ? `, ${said.join(", ")}` : ""}`;
}

/** "w.grad" and "4 → 16". */
function grownWords({ steps, step }: Recording, grown: GrownModel) {
  const { node, before, values, norm, changed, now } = grown;
  const name = steps[step[node] - 1]?.accumulated ?? ".grad";
  const was = before === null ? "None" : fewText(before);
  const since = changed ? `, now ${now === null ? "None" : fewText(now)}` : "";
  return [short(name), `${was} → ${fewText({ values, norm })}${since}`] as [string, string];
}

/** "−12 on to ×, and −12 to b"; "" where nothing is known to be passed on. */
function passedOn({ run, passed }: Recording, { nodes, edges }: GraphModel, node: number): string {
  const all = (passed.get(node) ?? []).map((i) => {
    const target = nodes[edges[run?.edges[i] ?? 0].target];
    const what = fewText({ values: run?.values[i] ?? null, norm: run?.norms[i] ?? null });
    return `${what} ${target.kind === "leaf" ? "to" : "on to"} ${boardName(target)}`;
  });
  const named = all.slice(0, MOST_NAMED);
  if (all.length > MOST_NAMED) named.push(`to ${all.length - MOST_NAMED} more`);
  return named.length < 2
    ? named.join("")
    : `${named.slice(0, -1).join(", ")}, and ${named.at(-1)}`;
}

/** What a node is called on a board: "+ pred", "×", "b". */
function boardName({ kind, sign, name, op, label }: NodeModel): string {
  if (kind === "leaf") return short(label);
  const called = sign ?? op;
  return short(name === null ? called : `${called} ${name}`);
}

function plain(op: string, name: string | null): string {
  return name === null ? oneLine(op) : `${oneLine(op)} ${short(name)}`;
}

function stepOf(step: number, total: number): string {
  return `step ${formatCount(step)} of ${formatCount(total)}`;
}

const MOST_CHARACTERS = 40;

/** User text for the one line of the bar. */
function short(text: string): string {
  return shortenMiddle(oneLine(text), MOST_CHARACTERS, (part) => part.length);
}
