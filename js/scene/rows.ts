import { oneLine, shortenMiddle } from "../text/shorten";
import type { GraphModel } from "../wire";
import { edgesOf } from "./members";
import type { Scene } from "./scene";

/** Characters of an operation in a row, and of an operand in it. */
const MOST = 12;
const MOST_OF_ONE = 5;

/** Writes into the rows of the leaves that add up which operation each share comes from: "a + b", "tanh(a)". */
export function nameRows(scene: Scene, graph: GraphModel): void {
  for (const edge of scene.edges) {
    if (edge.row === undefined) continue;
    const node = scene.nodes[edge.target];
    const rows = [...(node.rows ?? [])];
    rows[edge.row] = written(graph, edgesOf(edge)[0]);
    node.rows = rows;
  }
}

/** The operation that an edge comes from, with its operands. */
function written({ nodes, edges }: GraphModel, index: number): string {
  const { source, target, input_nr } = edges[index];
  const sign = nodes[source].sign ?? nodes[source].op;
  const name = called(nodes[target].name);
  if (sign.includes("( )")) return fitted(sign.replace("( )", name));
  if (/[a-z]{2}/i.test(sign)) return fitted(`${sign}(${name})`);
  const others = edges.filter((edge) => edge.source === source && edge.input_nr !== input_nr);
  const other = called(others.length === 1 ? nodes[others[0].target].name : null);
  const isFirst = input_nr === 0 || input_nr === null;
  return fitted(isFirst ? `${name} ${sign} ${other}` : `${other} ${sign} ${name}`);
}

function called(name: string | null): string {
  return name === null
    ? "\u2026"
    : shortenMiddle(oneLine(name), MOST_OF_ONE, ({ length }) => length);
}

function fitted(text: string): string {
  return shortenMiddle(text, MOST, ({ length }) => length);
}
