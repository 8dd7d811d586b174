import { valueAt } from "../maps";
import { boardNumber } from "../text/gradient";
import { oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel, NodeModel } from "../wire";
import { edgesOf } from "./members";
import { isModule } from "./module_class";
import type { Scene } from "./scene";

/** The most characters of a row's operation, and of its operand. */
const MOST = 12;
const MOST_OF_ONE = 6;

/** Name the operation of each row of a leaf, "tanh(a)"; by its module, "fc1", if that distinguishes the rows. */
export function nameRows(scene: Scene, graph: GraphModel): void {
  const places = new Map<number, Map<number, number>>();
  for (const edge of scene.edges) {
    if (edge.row === undefined) continue;
    valueAt(places, edge.target, () => new Map()).set(edge.row, edgesOf(edge)[0]);
  }
  for (const [index, edges] of places) {
    const node = scene.nodes[index];
    const modules = shortNames([...edges.values()].map((e) => modulesOf(graph, e)));
    const isClear = new Set(modules).size === modules.length;
    const rows: string[] = [];
    [...edges].forEach(([row, e], i) => {
      rows[row] = (isClear ? modules[i] : null) ?? written(graph, e);
    });
    node.rows = rows;
  }
}

/** The modules around an edge's operation; none where they are the leaf's own. */
function modulesOf({ nodes, edges }: GraphModel, index: number): readonly string[] {
  const { source, target } = edges[index];
  const { namespace } = nodes[source];
  if (!namespace || namespace === nodes[target].namespace) return [];
  const names = namespace.split("/").filter(isModule);
  return names.join("/") === nodes[target].namespace ? [] : names;
}

/** Each path's last name that no other path shares; null for no path. */
function shortNames(paths: readonly (readonly string[])[]): (string | null)[] {
  const ending = (path: readonly string[], length: number) => path.slice(-length).join("/");
  const counts = new Map<string, number>();
  for (const path of paths)
    path.forEach((_, i) => {
      const key = ending(path, i + 1);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    });
  return paths.map((path) => {
    let length = 1;
    while (length < path.length && counts.get(ending(path, length)) !== 1) length++;
    const from = path.length - length;
    const name = path[from];
    if (name === undefined) return null;
    const before = /^\d+$/.test(name) ? path.slice(Math.max(0, from - 1), from) : [];
    return fitted(oneLine([...before, name].join(".")));
  });
}

/** An edge's operation with its operands. */
function written({ nodes, edges }: GraphModel, index: number): string {
  const { source, target, arg_nr } = edges[index];
  const sign = nodes[source].sign ?? nodes[source].op;
  const name = called(nodes[target]);
  const isFirst = arg_nr === 0 || arg_nr === null;
  if (sign.includes("( )")) return fitted(sign.replace("( )", name));
  if (sign.startsWith("[")) return fitted(`${name}${sign}`);
  if (sign.startsWith("put at ")) return fitted(`${name} ${sign}`);
  // A function's argument is the leaf itself, whose name is above.
  if (/[a-z]{2}/i.test(sign) || sign === "Σ" || sign === "Π") {
    const full = `${sign}(${name})`;
    return full.length <= MOST ? full : fitted(sign);
  }
  if (sign === "@ +")
    return fitted(isFirst ? `… + ${name}` : arg_nr === 1 ? `${name} @` : `@ ${name}`);
  const others = edges.filter((edge) => edge.source === source && edge.arg_nr !== arg_nr);
  // A number that the sign contains may be of a constant, or of the operation itself.
  if (/\d$/.test(sign) || others.some((edge) => nodes[edge.target].said_by === source))
    return /[+−×÷]$/.test(sign) ? `${sign} ${beside(name, sign)}` : `${beside(name, sign)} ${sign}`;
  const other = called(others.length === 1 ? nodes[others[0].target] : null);
  const own = beside(name, `${sign} ${other}`);
  return isFirst ? `${own} ${sign} ${other}` : `${other} ${sign} ${own}`;
}

/** A name that fits beside words that are not cut: they may be a number. */
function beside(name: string, words: string): string {
  return shortenMiddle(name, Math.max(2, MOST - words.length - 1), ({ length }) => length);
}

/** A short operand: its name without modules, else its number. */
function called(node: NodeModel | null): string {
  const { name = null, value = null, changed = false } = node ?? {};
  if (name === null)
    return typeof value === "number" && changed === false ? inShort(value) : "\u2026";
  const last = oneLine(name).split(".").at(-1) || oneLine(name);
  return shortenMiddle(last, MOST_OF_ONE, ({ length }) => length);
}

/** A short number: two digits of a long one. */
function inShort(value: number): string {
  const text = boardNumber(value);
  return text.length < MOST_OF_ONE ? text : boardNumber(Number(value.toPrecision(2)));
}

function fitted(text: string): string {
  return shortenMiddle(text, MOST, ({ length }) => length);
}
