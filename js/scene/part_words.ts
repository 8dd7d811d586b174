import type { NodeModel } from "../wire";
import { isPlumbing } from "./plumbing";

const LINEAR = /^(Addmm|Mm|Linear)Backward/;
const SOFTMAX = /^(Safe)?SoftmaxBackward/;
const ATTENTION = /^ScaledDotProduct/;
/** Operations that say little about a part, and those that say most. */
const MINOR = /^([+−×÷=<>@]|−?\(|1 \/|\[)/;
const MAJOR = /^(attention|linear|conv|embedding|lstm|gru|rnn)/;

/** The operations that a part is known by, the main ones first, "2 linear · gelu"; null if none fit. */
export function partWords(
  operations: readonly NodeModel[],
  fits: (words: string) => boolean,
): string | null {
  const products = operations.filter(({ op }) => /^BmmBackward/.test(op)).length;
  const counts = new Map<string, number>();
  // Nodes are numbered from the outputs.
  for (const node of [...operations].reverse()) {
    const word = wordOf(node, products > 1);
    if (word !== null) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const all = [...counts].map(([word, count]) => (count > 1 ? `${count} ${word}` : word));
  const words = [...counts.keys()];
  const level = (i: number) => (MAJOR.test(words[i]) ? 0 : MINOR.test(words[i]) ? 2 : 1);
  const order = [...all.keys()].sort((a, b) => level(a) - level(b));
  let found: string | null = null;
  for (const i of order) {
    if (level(i) === 2 && found !== null && order.some((other) => level(other) < 2)) break;
    const longer: string = found === null ? all[i] : `${found} · ${all[i]}`;
    if (fits(longer)) found = longer;
  }
  return found;
}

/** An operation's word, "conv2d"; null for one that only moves numbers. */
function wordOf({ op, sign }: NodeModel, hasProducts: boolean): string | null {
  if (isPlumbing(op)) return null;
  if (ATTENTION.test(op) || (hasProducts && SOFTMAX.test(op))) return "attention";
  if (LINEAR.test(op)) return "linear";
  return sign?.replace(/(?<=[a-z]\w*) \d.*$/, "") ?? op.replace(/Backward\d*$/, "");
}
