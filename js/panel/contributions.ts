import { element, table } from "../dom/element";
import { boardValues, hasNotFinite } from "../text/gradient";
import { counted, fullNumber } from "../text/number";
import { formatShape } from "../text/shorten";
import type { ContributionModel, DetailsModel, TensorSummary } from "../wire";
import { argumentName, nodeLink } from "./links";
import { andMore, section } from "./sections";
import { briefly, isFew } from "./tensor";

const MOST_ROWS = 50;

/** The contributions to a node's gradient, with the sum after each. */
export function contributionsSection({
  contributions,
  contribution_count,
  consumers,
}: Pick<DetailsModel, "contributions" | "contribution_count" | "consumers">): HTMLElement | null {
  if (contributions === null || contributions.length === 0) return null;
  if (contributions.length + consumers.length < 3) return null;
  const several = new Set(contributions.map((part) => part.output_nr)).size > 1;
  return section(
    {
      key: "contributions",
      title: "How the gradient adds up",
      hint: counted(contribution_count, "share"),
    },
    [
      element(
        "div",
        "gw-shares",
        table(
          ["step", "from", "share", "sum"],
          contributions.slice(0, MOST_ROWS).map((part, i) => row(part, i, several)),
        ),
      ),
      andMore(contribution_count, MOST_ROWS, "share"),
    ],
  );
}

function row(part: ContributionModel, i: number, several: boolean): HTMLElement {
  const { consumer, label, argument, arg_nr, output_nr, step } = part;
  return element("tr", {}, [
    element("td", {}, String(step)),
    element("td", {}, [
      consumer === null ? label : nodeLink(consumer, label, `contribution.${i}`),
      consumer !== null &&
        arg_nr !== null &&
        element("span", "gw-dim", ` as ${argumentName(argument, arg_nr)}`),
      several && element("span", "gw-dim", ` to output ${output_nr}`),
    ]),
    amount(part.grad),
    amount(part.total),
  ]);
}

/** A tensor in a cell: its values if few, else its norm; `none` for no tensor. */
export function amount(
  summary: TensorSummary | null,
  none = "not kept",
  most?: number,
): HTMLElement {
  if (summary === null) return element("td", "gw-dim", none);
  const { values, norm, shape, note } = summary;
  const text = briefly(summary, most);
  const known = isFew(summary) ? boardValues(values ?? []) : null;
  const alarming =
    (summary.nan ?? 0) + (summary.inf ?? 0) > 0 || (known !== null && hasNotFinite(values ?? []));
  return element(
    "td",
    {
      class: alarming ? "is-alarming" : null,
      title: [
        formatShape(shape),
        known === text ? null : known,
        norm === null ? null : `norm ${fullNumber(norm)}`,
        note,
      ]
        .filter((one) => one !== null)
        .join(" · "),
    },
    text,
  );
}
