import { element, KEEP_KEYS } from "../dom/element";
import { compactNumber, compactValues } from "../text/gradient";
import { counted } from "../text/number";
import type { ChainModel, FactorModel, GraphModel, PathModel } from "../wire";
import { readable } from "./formula";
import { nodeLink } from "./links";
import { section } from "./sections";

/** The number of paths that are open at first, and their greatest length. */
const OPEN_PATHS = 3;
const OPEN_FACTORS = 6;

/** The chain rule at a leaf: a product along each path, and the sum over paths. */
export function chainSection(chain: ChainModel | null, graph: GraphModel): HTMLElement | null {
  if (chain === null) return null;
  const { paths, total_paths, written, sum, note } = chain;
  const total = typeof total_paths === "number" ? total_paths : Number.POSITIVE_INFINITY;
  return section(
    {
      key: "chain",
      title: "Chain rule",
      hint:
        paths.length < total
          ? `${paths.length} of ${compactNumber(total_paths)} paths`
          : counted(paths.length, "path"),
    },
    [
      element("p", "gw-note", note),
      ...paths.map((path, i) => pathView(path, i, paths.length, graph)),
      ...Array.from(
        new Set(paths.flatMap(({ factors }) => factors.map((factor) => factor.note))),
        (one) => one !== null && element("p", "gw-small", one),
      ),
      sum !== null || written !== null
        ? element("div", "gw-chain-sum", [
            element("span", "gw-dim", paths.length > 1 ? "sum over paths" : "altogether"),
            element("code", "gw-code", equation(written, sum)),
          ])
        : null,
    ],
  );
}

function pathView(
  { factors, written, product }: PathModel,
  i: number,
  count: number,
  graph: GraphModel,
): HTMLElement {
  const key = `chain.${i}`;
  const open = i < OPEN_PATHS && factors.length <= OPEN_FACTORS;
  return element("details", { class: "gw-path", "data-section": key, open }, [
    element("summary", { "data-focus": `${key}.heading`, ...KEEP_KEYS }, [
      element("span", {}, count > 1 ? `path ${i + 1}` : "the path"),
      element("span", "gw-dim", counted(factors.length, "edge")),
      product !== null && element("code", {}, compactValues(product)),
    ]),
    element(
      "ol",
      "gw-rows",
      factors.map((factor, k) => factorRow(factor, `${key}.${k}`, graph)),
    ),
    written === null ? null : element("code", "gw-code", equation(written, product)),
  ]);
}

function factorRow(
  { node, target, code, value }: FactorModel,
  key: string,
  graph: GraphModel,
): HTMLElement {
  const link = (id: number, end: string) =>
    nodeLink(id, graph.nodes[id]?.label ?? `node ${id}`, `${key}.${end}`);
  return element("li", {}, [
    element("span", "gw-path-edge", [link(node, "from"), "→", link(target, "to")]),
    element("code", {}, readable(code)),
    value !== null &&
      compactValues(value) !== code &&
      element("code", "gw-path-value", `= ${compactValues(value)}`),
  ]);
}

/** The written term and its value, unless they are the same. */
function equation(written: string | null, value: ChainModel["sum"]): string {
  if (value === null) return written ?? "";
  const text = compactValues(value);
  if (written === null) return text;
  return written.includes("=") || written === text ? written : `${written} = ${text}`;
}
