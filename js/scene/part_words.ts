import type { NodeModel } from "../wire";
import { isPlumbing } from "./plumbing";

const MATMUL = /^(Addmm|Addmv|Addbmm|Baddbmm|Bmm|Linear|Mm|Mv)Backward/;
const ATTENTION = /^_?ScaledDotProduct/;
/** The operations that say most about a part. */
const MAIN = /^(attention|matmul|conv|embedding|lstm|gru|rnn)/;

/** The operations that a part is known by, the main ones first, "2 matmul · gelu"; null if none fit. */
export function partWords(
  operations: readonly NodeModel[],
  fits: (words: string) => boolean,
): string | null {
  const counts = new Map<string, number>();
  // Nodes are numbered from the outputs.
  for (const node of [...operations].reverse()) {
    const word = wordOf(node);
    if (word !== null) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const isMinor = (word: string) => Number(!MAIN.test(word));
  let found: string | null = null;
  for (const [word, count] of [...counts].sort(([a], [b]) => isMinor(a) - isMinor(b))) {
    const one = count > 1 ? `${count} ${word}` : word;
    const longer: string = found === null ? one : `${found} · ${one}`;
    if (fits(longer)) found = longer;
  }
  return found;
}

/** An operation's word, "conv2d"; null for one with a mere sign, "×", and for one that only passes a tensor on. */
function wordOf({ op, sign }: NodeModel): string | null {
  if (isPlumbing(op)) return null;
  if (ATTENTION.test(op)) return "attention";
  if (MATMUL.test(op)) return "matmul";
  const word = sign ?? op.replace(/Backward\d*$/, "");
  return /^\p{L}/u.test(word) ? word.replace(/,? \d.*$/, "") : null;
}
