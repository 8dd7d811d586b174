// @vitest-environment jsdom
import { describe, expect, it } from "vitest";
import { MODELS } from "../../testing/graphs";
import { withRanks } from "../../testing/ranks";
import type { RankGradModel, TensorSummary } from "../../wire";
import { ranksSection, type ShownRank } from "./panel_section";

const summary = (norm: number | string): TensorSummary => ({
  ...{ shape: [30], dtype: "torch.float32", device: "cpu", numel: 30, values: null },
  ...{ truncated: false, indices: null, min: null, max: null, mean: null, norm },
  ...{ nan: norm === "nan" ? 1 : 0, inf: 0, zeros: 0, note: null },
});

function rows(count: number): RankGradModel[] {
  return Array.from({ length: count }, (_, rank) => ({
    ...{ rank, bucket: null, ready: null, odd: rank === 41 || rank === count - 1 },
    difference: null,
    local: rank === 41 ? null : summary(rank === count - 1 ? "nan" : 1 + (rank % 7)),
    reduced: summary(2),
  }));
}

function table(given: RankGradModel[], at?: ShownRank) {
  const section = ranksSection({ ranks: given }, at) as HTMLElement;
  document.body.replaceChildren(section);
  const numbers = () =>
    [...section.querySelectorAll("tbody tr")].map(({ children }) =>
      Number.parseInt(children[0].textContent ?? "", 10),
    );
  const sort = (column: string) =>
    section.querySelector<HTMLElement>(`[data-focus="ranks.${column}"]`)?.click();
  return { section, numbers, sort };
}

describe("the table of ranks", () => {
  it("is nothing for nothing", () => {
    expect(ranksSection({ ranks: [] })).toBeNull();
  });

  it("shows what is not as most first, then by what is asked, and says why", () => {
    const { section, numbers, sort } = table(rows(64));
    expect(numbers().slice(0, 4)).toEqual([41, 63, 0, 1]);
    expect(section.querySelectorAll("tr.is-odd")).toHaveLength(2);
    expect(section.querySelector("tr.is-odd")?.getAttribute("title")).toContain("over 10 times");
    expect(section.textContent).toContain("2 ranks are not as most");
    sort("local");
    expect(numbers().slice(0, 4)).toEqual([63, 41, 6, 13]);
    expect(section.querySelector("[aria-sort=descending]")?.textContent).toBe("local");
    sort("rank");
    expect(numbers().slice(0, 3)).toEqual([41, 63, 0]);
  });

  it("has columns for what is known: the difference, the bucket and when it was ready", () => {
    expect(table(rows(3)).section.querySelectorAll("th")).toHaveLength(3);
    expect(table(rows(3)).section.textContent).toContain("rank 2 is not as most");
    const known = rows(3).map((row, i) => ({
      ...row,
      ...{ difference: i === 0 ? null : summary(i), bucket: 0, ready: 2 - i },
    }));
    const { section, numbers, sort } = table(known);
    const heads = [...section.querySelectorAll("th")].map(({ textContent }) => textContent);
    expect(heads).toEqual(["rank", "local", "reduced", "difference", "bucket", "ready"]);
    const [last, first] = section.querySelectorAll("tbody tr"); // the last rank is not as most
    expect([...first.children].slice(3).map((cell) => cell.textContent)).toEqual(["–", "1", "3"]);
    expect(last.children[3].textContent).toContain("2");
    sort("ready");
    expect(numbers()).toEqual([2, 1, 0]);
    expect(section.querySelector("[aria-sort=ascending]")?.textContent).toBe("ready");
    sort("difference");
    expect(numbers()).toEqual([2, 1, 0]);
    sort("rank");
  });

  it.each([1, 64, 1000])("has at most 64 rows of %i, and says of how many", (count) => {
    const { section, numbers } = table(rows(count));
    expect(numbers()).toHaveLength(Math.min(64, count));
    if (count > 64) expect(section.textContent).toContain("64 of 1,000 ranks");
  });

  it("shows another rank where somebody can", () => {
    const { ranks } = withRanks(MODELS["h = w * x + b"](), [1, 2]);
    const asked: number[] = [];
    const at = { ranks, shown: 0, show: (rank: number) => asked.push(rank) };
    const { section } = table(rows(2), at);
    expect(section.querySelector("[aria-current]")?.textContent).toContain("0");
    const buttons = [...section.querySelectorAll<HTMLElement>("tbody button")];
    expect(buttons.map(({ ariaLabel, title }) => ariaLabel ?? title)).toEqual(["Show rank 1"]);
    buttons[0].click();
    expect(asked).toEqual([1]);
    expect(table(rows(2), { ...at, show: null }).section.querySelector("tbody button")).toBeNull();
  });
});
