import { boardNumber, boardValues, fewText } from "../../text/gradient";
import { counted } from "../../text/number";
import { oneLine } from "../../text/shorten";
import type {
  EditModel,
  FewModel,
  LeafChangeModel,
  ShareModel,
  Values,
  WhatIfModel,
} from "../../wire";

/** A short gradient; "None" for none. */
export function gradText(few: FewModel | null): string {
  return few ? fewText(few) : "None";
}

/** The change of a leaf's gradient: "+0.7689", "same", "‖0.2‖". */
export function changeText({ difference }: LeafChangeModel): string {
  if (!difference) return "same";
  const { values } = difference;
  if (typeof values === "number") return `${values > 0 ? "+" : ""}${boardNumber(values)}`;
  return gradText(difference);
}

/** The change in percent of the gradient's norm: "−84 %"; null if that has no meaning. */
export function percentText({ rest, difference }: LeafChangeModel): string | null {
  if (rest === null || !difference) return null;
  const percent = Math.round((rest - 1) * 100);
  if (percent === 0 || percent > 999) return null;
  return `${percent > 0 ? "+" : "\u2212"}${Math.abs(percent)} %`;
}

/** "84 % of this gradient comes through out." */
export function shareText({ label, share }: ShareModel): string {
  const percent = Math.abs(share) * 100;
  const many = percent > 0 && percent < 1 ? "Less than 1" : String(Math.round(percent));
  const from = oneLine(label);
  return share < 0
    ? `${from} takes ${many.toLowerCase()} % of this gradient back.`
    : `${many} % of this gradient comes through ${from}.`;
}

/** The most leaves that the bar names. */
const MOST_NAMED = 3;

/** The bar's words about edits: "2 edits", "w.grad", "would be 0.5, not 1", and a link to the panel. */
export function editedWords(
  edits: readonly EditModel[],
  answer: WhatIfModel | null,
): [name: string, words: string][] {
  const on = edits.filter(({ off }) => !off).length;
  const count = counted(edits.length, "edit") + (on < edits.length ? `, ${on} on` : "");
  if (!answer) return [["", count]];
  if (answer.failed) return [["", `${count} without effect: see the panel`]];
  const other = answer.leaves.filter(({ difference }) => difference !== null);
  const parts = other
    .slice(0, MOST_NAMED)
    .map((leaf): [string, string] => [
      `${oneLine(leaf.name ?? `node ${leaf.node}`)}.grad`,
      `would be ${gradText(leaf.after)}, not ${gradText(leaf.before)}`,
    ]);
  const plain = [
    ...(other.length > MOST_NAMED ? [`${other.length - MOST_NAMED} more in the panel`] : []),
    ...(other.length === 0 && on > 0 ? ["every .grad would be the same"] : []),
    ...(answer.names.length > 0
      ? [`${answer.names.map(oneLine).join(" and ")} side by side in the panel`]
      : []),
  ];
  return [["", count], ...parts, ...plain.map((words): [string, string] => ["", words])];
}

/** An edit: "cut", "× 0.5", "= 3". */
export function editText({ kind, value }: EditModel): string {
  if (kind === "cut") return "cut";
  return kind === "scale" ? `× ${numbersText(value) || "k"}` : `= ${numbersText(value)}`;
}

/** A factor, or the numbers of a replacement, as they are typed. */
export function numbersText(value: Values | null): string {
  if (value === null) return "";
  return typeof value === "number" ? boardNumber(value) : boardValues(value);
}
