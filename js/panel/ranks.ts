import { element, table } from "../dom/element";
import { counted } from "../text/number";
import type { DetailsModel } from "../wire";
import { amount } from "./contributions";
import { type Opened, section } from "./sections";

const MOST_ROWS = 64;

/** The gradient of a leaf on each rank of a run: its own, and what was made of all of them. */
export function ranksSection(
  { ranks }: Pick<DetailsModel, "ranks">,
  opened: Opened,
): HTMLElement | null {
  if (ranks.length === 0) return null;
  const rest = ranks.length - MOST_ROWS;
  return section(
    "ranks",
    "On each rank",
    counted(ranks.length, "rank"),
    opened,
    true,
    element(
      "div",
      "gw-shares is-ranks",
      table(
        ["rank", "local", "reduced"],
        ranks
          .slice(0, MOST_ROWS)
          .map(({ rank, local, reduced }) =>
            element(
              "tr",
              {},
              element("td", {}, String(rank)),
              amount(local, "none"),
              amount(reduced, "none"),
            ),
          ),
      ),
    ),
    rest > 0 && element("p", "gw-small", `and ${counted(rest, "more rank")}`),
  );
}
