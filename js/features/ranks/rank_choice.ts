import { choice, element, KEEP_KEYS, optionsOf } from "../../dom/element";
import { Remembered } from "../../dom/remembered";
import { counted } from "../../text/number";
import { oneLine } from "../../text/shorten";
import type { RanksModel } from "../../wire";

/** The rank that is shown: a choice if Python can show others, else words. */
export function createRankChoice(choose: (rank: number) => void) {
  const select = choice({ "aria-label": "Rank whose graph and numbers are shown" }, (value) => {
    select.ariaBusy = "true";
    choose(Number(value));
  });
  const label = element("label", "gw-rank-choice", [element("span", {}, "rank"), select]);
  const words = element("span", "gw-rank-words");
  /** A click shows the nodes and edges that only other ranks have. */
  const more = element("button", { type: "button", class: "gw-rank-more", ...KEEP_KEYS });
  let next = 0;
  more.addEventListener("click", () => choose(next));
  const whole = element("span", { class: "gw-group", hidden: true }, [more, label, words]);
  const known = new Remembered();
  function showMore({ elsewhere }: RanksModel, there: readonly number[]): void {
    const [first] = elsewhere;
    more.hidden = first === undefined;
    if (first === undefined) return;
    next = first.rank;
    more.disabled = there.length < 2;
    more.textContent = `+${counted(first.count, "node")} on ${first.ranks}`;
    more.title = elsewhere
      .map(({ ranks, count, names }) => {
        const named = names.length > 0 ? `: ${names.map(oneLine).join(", ")}` : "";
        return `${ranks}: ${counted(count, "node")} that this graph has not${named}`;
      })
      .join("; ");
  }

  return {
    element: whole,
    /** `there` are the ranks that can be shown, `shown` the current one; null without ranks. */
    update(ranks: RanksModel | null, shown: number | null, there: readonly number[]) {
      whole.hidden = ranks === null || shown === null;
      if (ranks === null || shown === null) return;
      const count = counted(ranks.count, "rank");
      label.hidden = there.length < 2;
      words.hidden = !label.hidden;
      words.textContent = `rank ${shown} of ${ranks.count}`;
      words.title =
        `Of ${count} the graph of rank ${shown} is here, and what the others say of it. ` +
        "gradwalk.load() of their files shows any of them in a notebook, and " +
        "python -m gradwalk --html --rank makes a page of another.";
      if (known.isNew(there.join()))
        select.replaceChildren(...optionsOf(there.map((rank) => [`${rank}`, `${rank}`] as const)));
      showMore(ranks, there);
      select.title = `Which of ${count} is shown (widget.rank)`;
      select.value = String(shown);
      select.ariaBusy = null;
    },
  };
}
