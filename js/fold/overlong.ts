import { makeGraph } from "../layout/graph";
import { longestPathTo } from "../layout/rank";
import type { Plan } from "../scene/plan";

/** A picture of a large graph that is so many times as long as it is wide is wrapped into columns. */
export const OVERLONG = 2.5;
/** A guess says so only where it would have to be wrong by this factor. */
const SURELY = 4;
/** What a row, a node and a line that passes a row take at most or at least, px. */
const ROW = 80;
const NODE = 160;
const LINE = 14;

/** Whether a picture will be overlong beyond doubt, before it is laid out: laying it out twice takes twice as long. */
export function isSurelyOverlong({ nodes, edges }: Plan): boolean {
  const n = nodes.length;
  const rank = longestPathTo(
    makeGraph(
      n,
      Int32Array.from(edges, ({ source }) => source),
      Int32Array.from(edges, ({ target }) => target),
    ),
  );
  const last = new Int32Array(n);
  for (const { source, target } of edges) last[source] = Math.max(last[source], rank[target]);
  // Where each node's lines begin and end, and so how many pass a row.
  const passing = new Int32Array(n + 2);
  const width = new Float64Array(n + 1);
  for (let v = 0; v < n; v++) {
    width[rank[v]] += NODE;
    if (last[v] <= rank[v]) continue;
    passing[rank[v] + 1]++;
    passing[last[v]]--;
  }
  let lines = 0;
  let widest = 1;
  let rows = 0;
  for (let r = 0; r < n && width[r] > 0; r++) {
    lines += passing[r];
    widest = Math.max(widest, width[r] + lines * LINE);
    rows++;
  }
  return rows * ROW > SURELY * OVERLONG * widest;
}
