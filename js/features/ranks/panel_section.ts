import { button, element, linkButton } from "../../dom/element";
import { amount } from "../../panel/contributions";
import { section } from "../../panel/sections";
import { formatCount } from "../../text/number";
import type { DetailsModel, RankGradModel, RanksModel, TensorSummary } from "../../wire";

const MOST_ROWS = 64;
/** The most numbers to write in a column; more are summarized by the norm, with a tooltip. */
const MOST_NUMBERS = 1;

/** The sort key of the table; outliers come first. */
type Column = "rank" | "local" | "reduced" | "difference" | "bucket" | "ready";
/** The last three columns appear if any value is known. */
const COLUMNS: Record<Column, string> = {
  rank: "Sort by rank",
  local: "What arrived at the leaf there: the gradient of that rank alone",
  reduced: "Its .grad after the pass; under FSDP2 that rank's part of it",
  difference: "local less reduced, number by number",
  bucket: "In which bucket DistributedDataParallel reduced it, by its log",
  ready: "Which of the gradients it was, in the order in which they were ready, by that log",
};
let sortedBy: Column = "rank";

const ODD =
  "Not as most ranks: the local gradient is NaN, infinite or missing where most have one, or its norm is over 10 times the " +
  "middle one or under a tenth of it; or the reduced gradient is another than most ranks have.";

/** The shown rank, and how to show another; null if impossible. */
export interface ShownRank {
  ranks: RanksModel | null;
  shown: number | null;
  show: ((rank: number) => void) | null;
}

/** A leaf's gradient on each rank: its own, and the reduced one. */
export function ranksSection(
  { ranks }: Pick<DetailsModel, "ranks">,
  at: ShownRank = { ranks: null, shown: null, show: null },
): HTMLElement | null {
  if (ranks.length === 0) return null;
  const count = Math.max(ranks.length, at.ranks?.count ?? 0);
  const most = Math.max(...ranks.map(({ local }) => finiteNorm(local)));
  const body = element("tbody");
  const names = Object.keys(COLUMNS) as Column[];
  const columns = names.filter(
    (column, i) => i < 3 || ranks.some((row) => row[column] !== null && row[column] !== undefined),
  );
  const heads = columns.map((column) => {
    const sort = button(
      { class: "gw-sort", label: `Sort by ${column}`, title: COLUMNS[column], text: column },
      () => {
        sortedBy = column;
        fill();
      },
    );
    sort.dataset.focus = `ranks.${column}`;
    return element("th", { scope: "col" }, sort);
  });
  const fill = () => {
    const rows = sorted(ranks).slice(0, MOST_ROWS);
    body.replaceChildren(...rows.map((row) => rankRow(row, columns, most, at)));
    heads.forEach((head, i) => {
      const order = isNumber(columns[i]) ? "ascending" : "descending";
      head.ariaSort = columns[i] === sortedBy ? order : "none";
    });
  };
  fill();
  const odd = ranks.filter((row) => row.odd);
  const who = odd.length === 1 ? `rank ${odd[0].rank} is` : `${formatCount(odd.length)} ranks are`;
  const shown = Math.min(ranks.length, MOST_ROWS);
  const sentences = [
    shown < count && `${formatCount(shown)} of ${formatCount(count)} ranks`,
    odd.length > 0 && `\u25c6 ${who} not as most`,
  ].filter((words) => words !== false);
  const table = element("table", {}, [element("thead", {}, element("tr", {}, heads)), body]);
  return section(
    {
      key: "ranks",
      title: "On each rank",
      hint: `${formatCount(count)} ${count === 1 ? "rank" : "ranks"}`,
    },
    [
      element("div", { class: "gw-shares is-ranks", "data-scroll": "ranks" }, table),
      sentences.length > 0 &&
        element(
          "p",
          { class: "gw-small", title: odd.length > 0 ? ODD : null },
          sentences.join("; "),
        ),
    ],
  );
}

/** Whether a column has a number instead of a gradient. */
function isNumber(column: Column): column is "rank" | "bucket" | "ready" {
  return column === "rank" || column === "bucket" || column === "ready";
}

function rankRow(
  row: RankGradModel,
  columns: readonly Column[],
  most: number,
  { shown, show }: ShownRank,
): HTMLElement {
  const { rank, local, odd } = row;
  const number = String(rank);
  const own = amount(local, "none", MOST_NUMBERS);
  const share = most > 0 ? finiteNorm(local) / most : 0;
  own.style.setProperty("--gw-share", `${(100 * share).toFixed(1)}%`);
  return element(
    "tr",
    {
      class: odd ? "is-odd" : null,
      title: odd ? ODD : null,
      "aria-current": rank === shown ? "true" : null,
    },
    [
      element("td", {}, [
        show && rank !== shown
          ? linkButton(number, () => show(rank), { label: `Show rank ${rank}` })
          : number,
        odd &&
          element("span", { class: "gw-odd", role: "img", "aria-label": "not as most" }, "\u25c6"),
      ]),
      own,
      ...columns.slice(2).map((column) => {
        if (!isNumber(column))
          return amount(row[column], column === "reduced" ? "none" : "–", MOST_NUMBERS);
        const place = row[column];
        return element("td", {}, place === null ? "–" : String(place + 1));
      }),
    ],
  );
}

/** Outliers first; by a norm, non-finite values, then the largest, missing ones last. */
function sorted(rows: readonly RankGradModel[]): RankGradModel[] {
  const height = (summary: TensorSummary | null) => {
    if (summary === null || summary.norm === null) return -1;
    const norm = Number(summary.norm);
    return Number.isFinite(norm) ? norm : Number.POSITIVE_INFINITY;
  };
  const by = sortedBy;
  const key = (row: RankGradModel) =>
    isNumber(by) ? (row[by] ?? Number.POSITIVE_INFINITY) : -height(row[by]);
  return [...rows].sort((a, b) => {
    const apart = Number(b.odd) - Number(a.odd);
    if (apart !== 0) return apart;
    const [one, other] = [key(a), key(b)];
    return one === other ? a.rank - b.rank : one - other;
  });
}

function finiteNorm(summary: TensorSummary | null): number {
  const norm = Number(summary?.norm ?? 0);
  return Number.isFinite(norm) ? norm : 0;
}
