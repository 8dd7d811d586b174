import { formatCount } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { NodeState, StepModel } from "../wire";
import { type Progress, type Recording, stateAt } from "./recording";

/** Where a node stands, in words: "running: step 3 of 7". */
export function describeState({ recording, cursor }: Progress, node: number): string {
  const state: NodeState = stateAt(recording, node, cursor);
  const step = stepOf(recording.step[node], recording.steps.length);
  switch (state) {
    case "running":
      return `running: ${step}`;
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

/** Where the run stands: the words before and after the name of the operation that runs. */
interface Position {
  before: string;
  /** Null when nothing has run. */
  step: StepModel | null;
  after: string;
}

/** "step 3 of 7: PowBackward0", and whose `.grad` grows. */
export function position({ steps, run }: Recording, cursor: number): Position {
  const total = steps.length;
  const step = steps[cursor - 1];
  if (!step) {
    const next = steps[0];
    return {
      before: `before ${stepOf(1, total)}${next ? `: press > to run ${oneLine(next.op)}` : ""}`,
      step: null,
      after: "",
    };
  }
  const parts: string[] = [];
  if (step.name !== null && step.accumulated === null) parts.push(short(step.name));
  if (step.accumulated !== null) parts.push(`${short(step.accumulated)} grows`);
  if (cursor === total && run?.ended === "stopped") parts.push("backward stopped here");
  return { before: `${stepOf(cursor, total)}: `, step, after: parts.join(", ") };
}

/** The same as one text, for a screen reader. */
export function positionText(recording: Recording, cursor: number): string {
  const { before, step, after } = position(recording, cursor);
  return `${before}${step ? oneLine(step.op) : ""}${after === "" ? "" : `, ${after}`}`;
}

function stepOf(step: number, total: number): string {
  return `step ${formatCount(step)} of ${formatCount(total)}`;
}

const MOST_CHARACTERS = 40;

/** User text for the one line of the bar. */
function short(text: string): string {
  return shortenMiddle(oneLine(text), MOST_CHARACTERS, (part) => part.length);
}
