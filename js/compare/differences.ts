import { matchWords } from "../controls/search";
import { element, scroller, selectLink, table, tableRow } from "../dom/element";
import { counted } from "../text/number";
import { oneLine } from "../text/shorten";
import type { United } from "./united";

const MOST_ROWS = 50;

/** A list of the nodes that some graphs lack, in the order of the graphs. */
export function createDifferences(choose: (place: number) => void) {
  const section = element("section", { class: "gw-differences", hidden: true });
  return {
    element: section,
    update({ graph, members, panes }: United): void {
      const places = members.flatMap((of, place) => (of.includes(null) ? [place] : []));
      section.hidden = places.length === 0;
      const rows = places.slice(0, MOST_ROWS).map((place) => {
        const [name, about] = matchWords(graph.nodes[place]);
        const has = panes.flatMap(({ label }, p) =>
          members[place][p] === null ? [] : oneLine(label),
        );
        return tableRow(
          selectLink(name, () => choose(place)),
          [
            element("td", "gw-dim", about),
            element("td", {}, `${has.length === 1 ? "only in " : "in "}${has.join(", ")}`),
          ],
        );
      });
      const more = places.length - rows.length;
      section.replaceChildren(
        element("h2", "gw-table-title", counted(places.length, "difference")),
        scroller(
          "Nodes that some graphs lack",
          table(["node", "about", "where"], rows, { class: "gw-table" }),
        ),
        ...(more > 0 ? [element("p", "gw-small", `and ${counted(more, "more node")}`)] : []),
      );
    },
  };
}
