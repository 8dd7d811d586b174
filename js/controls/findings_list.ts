import { element, KEEP_KEYS, linkButton } from "../dom/element";
import { moduleName } from "../scene/box_words";
import { counted } from "../text/number";
import { oneLine } from "../text/shorten";
import type { FindingModel, GraphModel } from "../wire";

const WORDS: Record<FindingModel["severity"], string> = {
  error: "Error",
  warning: "Warning",
  info: "Note",
};
/** The most links of one finding. */
const MOST_LINKS = 6;

/** A diagnosis' findings, worst first; a click selects the node. */
export function createFindingsList(
  show: (node: number) => void,
  labelOf: (node: number) => string,
) {
  const list = element("ul", "gw-findings-list");
  const summary = element("summary", { class: "gw-findings-summary", ...KEEP_KEYS });
  const details = element("details", { class: "gw-findings", open: true, hidden: true }, [
    summary,
    list,
  ]);
  return {
    element: details,
    /** Show the findings; null before any diagnosis. */
    update(findings: readonly FindingModel[] | null) {
      details.hidden = findings === null;
      if (findings === null) return;
      summary.textContent =
        findings.length === 0 ? "Nothing found" : `${counted(findings.length, "finding")}`;
      list.replaceChildren(...bySeverity(findings).map((finding) => entry(finding, show, labelOf)));
    },
  };
}

/** A node's label; if that is only the operation, the module that ran it, by the name in the picture. */
export function labelInModule(graph: Pick<GraphModel, "nodes">, node: number): string {
  const { label, name, namespace } = graph.nodes[node];
  return name === null && namespace ? moduleName(namespace, graph) : label;
}

/** Worst first; ties keep Python's order. */
export function bySeverity(findings: readonly FindingModel[]): FindingModel[] {
  const order = Object.keys(WORDS);
  return [...findings].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
}

function entry(
  { severity, message, nodes }: FindingModel,
  show: (node: number) => void,
  labelOf: (node: number) => string,
): HTMLElement {
  const first = nodes[0];
  const links = nodes.slice(0, MOST_LINKS).map((node) => {
    const label = oneLine(labelOf(node));
    return linkButton(label, () => show(node), { label: `Go to ${label}` });
  });
  const more = nodes.length - links.length;
  return element("li", `gw-finding is-${severity}`, [
    element("span", "gw-finding-severity", WORDS[severity]),
    element("span", "gw-finding-text", [
      first === undefined
        ? element("span", "gw-finding-message", message)
        : linkButton(message, () => show(first), { class: "gw-finding-message gw-plain" }),
      links.length > 1 &&
        element("span", "gw-finding-nodes", [...links, more > 0 && `and ${more} more`]),
    ]),
  ]);
}
