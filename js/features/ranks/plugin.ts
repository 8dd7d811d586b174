import { Remembered } from "../../dom/remembered";
import { PANEL_SECTIONS } from "../../panel/sections";
import { VIEW_PARTS } from "../../view/view_part";
import { ranksSection } from "./panel_section";
import { createRankChoice } from "./rank_choice";
import { rankStrips } from "./rank_strips";

PANEL_SECTIONS.push((details, { graph, channel }) => {
  const hasOthers = (channel?.get("_ranks") ?? []).length > 1;
  const show = hasOthers ? (rank: number) => channel?.set("rank", rank) : null;
  const shown = channel?.get("rank") ?? null;
  return ranksSection(details, { ranks: graph.ranks, shown, show });
});

/** The choice of the rank, and the strips over ranks, computed once per picture, pass and rank. */
VIEW_PARTS.push(({ channel, drawing, graph }) => {
  const choice = createRankChoice((rank) => channel.set("rank", rank));
  const seen = new Remembered();
  function show(): void {
    const { scene, progress } = drawing;
    const shown = graph();
    const rank = channel.get("rank") ?? null;
    // The strips would give answers away.
    const isAsked = (channel.get("_quiz") ?? null) !== null;
    const recording = progress?.recording ?? null;
    if (!scene || !shown || !seen.isNew(scene, shown.ranks, recording, rank, isAsked)) return;
    drawing.mark({ ranks: isAsked ? null : rankStrips(shown, scene, recording, rank) });
  }
  return {
    tool: choice.element,
    traits: ["rank", "_ranks", "_quiz"],
    update() {
      const ranks = graph()?.ranks ?? null;
      choice.update(ranks, channel.get("rank") ?? null, channel.get("_ranks") ?? []);
      show();
    },
    drawn: show,
    stepped: show,
  };
});
