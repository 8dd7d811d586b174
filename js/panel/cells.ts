import { element } from "../dom/element";
import { addedTo, isOver, type Progress, stateAt, storedNow } from "../steps/recording";
import { describeState } from "../steps/words";
import { fewText, isAlarming } from "../text/gradient";
import { fullNumber } from "../text/number";
import { formatShape } from "../text/shorten";
import type { DetailsModel, FewModel, NodeModel, TensorSummary, Values } from "../wire";
import { briefly, isFew } from "./tensor";

/** A node's value and its stored or incoming gradient, as in the picture. */
export function cells(
  node: NodeModel,
  details: DetailsModel | null,
  progress: Progress | null,
): HTMLElement {
  const leaf = node.kind === "leaf";
  const value = details?.value ?? null;
  const shown =
    value === null ? few(node.value) : isFew(value) ? fewText(value) : formatShape(value.shape);
  const shape = node.changed ? "changed" : node.shape === null ? "?" : formatShape(node.shape);
  const grad = details ? gradientIn(details, leaf) : recordedGradient(node.id, leaf, progress);
  return element("div", "gw-cells", [
    cell(node.changed === null ? "value now" : "value", shown ?? shape, value, ""),
    cell(
      leaf ? ".grad" : "grad",
      grad ? text(grad) : "None",
      grad,
      grad ? (leaf ? "is-stored" : "is-flowed") : "is-none",
    ),
    addedUp(node.id, leaf, progress),
  ]);
}

function few(values: Values | null): string | null {
  return values === null ? null : fewText({ values, norm: null });
}

function gradientIn({ grad, grad_output }: DetailsModel, leaf: boolean): TensorSummary | null {
  if (leaf || grad) return grad;
  return grad_output?.length === 1 ? grad_output[0] : null;
}

/** The same from the recording, before the details arrive. */
function recordedGradient(id: number, leaf: boolean, progress: Progress | null): FewModel | null {
  if (!progress) return null;
  const { recording, cursor } = progress;
  const { gradients, step, ready } = recording;
  if (leaf) return step[id] <= cursor ? storedNow(recording, id) : null;
  return step[id] > 0 && ready[id] <= cursor ? (gradients.get(id) ?? null) : null;
}

function text(gradient: FewModel | TensorSummary): string {
  return "numel" in gradient ? briefly(gradient) : fewText(gradient);
}

function cell(label: string, shown: string, tensor: FewModel | null, kind: string): HTMLElement {
  const { values, norm } = tensor ?? { values: null, norm: null };
  const exact =
    typeof values === "number"
      ? fullNumber(values)
      : norm === null
        ? ""
        : `norm ${fullNumber(norm)}`;
  const alarming = isAlarming({ values, norm });
  return element(
    "div",
    { class: `gw-cell ${kind}${alarming ? " is-alarming" : ""}`, title: exact },
    [element("span", "gw-cell-label", label), " ", element("b", {}, shown)],
  );
}

/** ".grad before 4 + this pass 12 = 16", if the pass added to an earlier value. */
function addedUp(id: number, leaf: boolean, progress: Progress | null): HTMLElement | null {
  const held = progress?.recording.stored.get(id);
  if (!leaf || !progress || !held?.before || held.values === null) return null;
  const { recording, cursor } = progress;
  const came = recording.gradients.get(id);
  if (!came || (recording.step[id] > cursor && !isOver(progress))) return null;
  if (stateAt(recording, id, cursor) === "not reached") return null;
  const isSum = addedTo(recording, id) !== null;
  const [before, here, after] = [held.before, came, held].map(fewText);
  return element(
    "p",
    "gw-added",
    isSum
      ? `${before} before + ${here} in this pass = ${after}`
      : `${before} before, ${here} in this pass, ${after} after it`,
  );
}

/** The state of the node in the recorded pass; null without one. */
export function stateBadge(progress: Progress | null, id: number): HTMLElement | null {
  if (!progress || progress.recording.steps.length === 0) return null;
  const found = stateAt(progress.recording, id, progress.cursor);
  const state = found === "running" && isOver(progress) ? "done" : found;
  return element(
    "p",
    { class: `gw-state is-${state.replace(" ", "-")}`, "data-section": "state" },
    describeState(progress, id),
  );
}
