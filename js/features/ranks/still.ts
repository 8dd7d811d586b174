import { STILL_MARKS } from "../../export/svg";
import { rankStrips } from "./rank_strips";

STILL_MARKS.push((graph, scene, recording) => ({
  ranks: rankStrips(graph, scene, recording, graph.ranks?.shown ?? null),
}));
