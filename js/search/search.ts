import { formatShape } from "../text/shape";
import type { GraphModel } from "../wire";

/**
 * Ids of the nodes that match every word of the query, in the graph's order: in the name, the operation, the module or the shape,
 * whichever way the shape is written ("64,3", "(64, 3, 7, 7)", "64x3", "scalar").
 */
export function search(graph: GraphModel, query: string): number[] {
  const words = wordsOf(query);
  if (words.length === 0) return [];
  const rootNames = new Map<number, string>();
  for (const { node, name } of graph.roots) {
    if (name !== null) rootNames.set(node, `${rootNames.get(node) ?? ""} ${name.toLowerCase()}`);
  }
  return graph.nodes
    .filter(({ id, kind, name, op, label, shape, namespace }) => {
      const module = namespace === null ? "" : `${namespace}\n${namespace.replaceAll("/", ".")}`;
      const word = kind === "op" || kind === "leaf" ? "" : kind;
      const text = [name ?? "", op, label, rootNames.get(id) ?? "", module, word]
        .join("\n")
        .toLowerCase();
      const sizes = shape === null ? "" : formatShape(shape).replace(/\s/g, "");
      return words.every((word) => text.includes(word) || matchesShape(sizes, word));
    })
    .map(({ id }) => id);
}

/** Words in lower case; a shape stays one word however it is spaced. */
function wordsOf(query: string): string[] {
  return query
    .toLowerCase()
    .replace(/(\d)\s*[x×,]\s*(?=\d)/g, "$1,")
    .replace(/(\d)\s*,\s*\)/g, "$1,)")
    .replace(/\(\s+/g, "(")
    .replace(/\s+\)/g, ")")
    .split(/\s+/)
    .filter((word) => word !== "");
}

/** Whole sizes only: "64" is no part of 640. */
function matchesShape(sizes: string, word: string): boolean {
  if (sizes === "scalar") return "scalar".startsWith(word) && word.length > 1;
  if (!/^\(?[\d,]+\)?$/.test(word)) return false;
  const padded = `,${sizes.replace(/[()]/g, "").replace(/,$/, "")},`;
  const wanted = word.replace(/[()]/g, "").replace(/,$/, "").replace(/^,/, "");
  if (wanted === "") return false;
  if (word.startsWith("(") && !padded.startsWith(`,${wanted},`)) return false;
  if (word.endsWith(")") && !padded.endsWith(`,${wanted},`)) return false;
  return padded.includes(`,${wanted},`);
}
