import { remembered } from "../maps";
import { formatShape, oneLine } from "../text/shorten";
import type { GraphModel, NodeModel } from "../wire";

/**
 * Ids of the nodes that match every word of the query, in the graph's order. A word matches a name, operation, module
 * or shape in any notation ("64,3", "(64, 3, 7, 7)", "64x3", "scalar").
 */
export function search(graph: GraphModel, query: string): number[] {
  const words = wordsOf(query);
  if (words.length === 0) return [];
  const rootNames = new Map<number, string>();
  for (const { node, name } of graph.roots) {
    if (name !== null) rootNames.set(node, `${rootNames.get(node) ?? ""} ${name.toLowerCase()}`);
  }
  return words
    .reduce((found, word) => found.filter(matcher(word, rootNames)), graph.nodes)
    .map(({ id }) => id);
}

/** The words for a match in a list: its name or sign, then its operation, shape and module. */
export function matchWords(node: NodeModel | null): [name: string, place: string] {
  if (!node) return ["", ""];
  const { label, name, sign, op, shape, namespace } = node;
  const own = oneLine(name ?? sign ?? label);
  const parts = [
    op === own || op === "AccumulateGrad" ? null : oneLine(op),
    shape && formatShape(shape),
    namespace && oneLine(namespace.replaceAll("/", ".")),
  ];
  return [own, parts.filter(Boolean).join(" · ")];
}

/** Return a test of one word. Results are cached, because nodes of a large graph share most texts and shapes. */
function matcher(word: string, rootNames: Map<number, string>): (node: NodeModel) => boolean {
  const isIn = (text: string) => text.toLowerCase().includes(word);
  const inText = remembered(isIn);
  const inModule = remembered((path: string) => isIn(path) || isIn(path.replaceAll("/", ".")));
  const inShape = remembered((shape: number[]) =>
    matchesShape(formatShape(shape).replace(/\s/g, ""), word),
  );
  return ({ id, kind, name, op, label, shape, namespace }) =>
    inText(op) ||
    inText(label) ||
    (name !== null && inText(name)) ||
    (namespace !== null && inModule(namespace)) ||
    (shape !== null && inShape(shape)) ||
    (kind !== "op" && kind !== "leaf" && inText(kind)) ||
    isIn(rootNames.get(id) ?? "");
}

/** Split into lower-case words; a shape with spaces stays one word. */
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

/** Match whole sizes only: "64" does not match 640. */
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
