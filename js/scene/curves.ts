import { type Direction, isHorizontal, turn } from "../layout/direction";
import type { Measure } from "../text/measure";
import type { GraphModel, NodeModel } from "../wire";
import { nameShapes } from "./edge_shapes";
import { placeSigns } from "./edge_signs";
import { fineTexts } from "./fine";
import { fittedTitle, type SceneFrame, titleWidth } from "./frame";
import { factsOf, fittedFacts } from "./frame_facts";
import type { Place } from "./grid";
import { placeLabels } from "./labels";
import { drawnFor } from "./members";
import type { Placement } from "./placement";
import type { Plan } from "./plan";
import { onlyOn, onlyTag } from "./rank_strip";
import { nameRows } from "./rows";
import type { Scene, SceneNode } from "./scene";
import { sceneEdges } from "./scene_edges";
import { flagsIn, isLeaf, type Sized } from "./sizes";
import { nameSkips, skipsIn } from "./skips";
import { edgesOnBars, placeStrip } from "./strip";
import { findUses } from "./uses";
import type { Size } from "./views";

/** Draw a laid-out picture: frames, nodes, curves, and their words. */
export function drawn(sized: Sized, placed: Placement, measure: Measure, window: Size): Scene {
  const { graph, plan, direction } = sized;
  const horizontal = isHorizontal(direction);
  const frames = sceneFrames(graph, plan, placed, direction, measure);
  const { nodes, first } = sceneNodes(sized, placed, frames, measure, window);
  const scene: Scene = {
    direction,
    isStatic: graph.static,
    ...(placed.isMirrored && { inHalves: true }),
    width: horizontal ? placed.height : placed.width,
    height: horizontal ? placed.width : placed.height,
    nodes,
    edges: sceneEdges(sized, placed, measure),
    drawn: drawnFor(nodes, graph.nodes.length),
    frames,
    ...(plan.edgeOf ? { edgeOf: plan.edgeOf } : {}),
    ...(graph.ranks && { signs: tagsOf(nodes) }),
  };
  placeSigns(scene);
  placeLabels(scene, plan.edges, measure);
  nameSkips(scene, skipsIn(graph, plan), measure);
  nameShapes(scene, graph, plan, measure);
  if (plan.nodes.some(({ strip }) => strip)) joinBars(scene, graph, plan, first);
  nameRows(scene, graph);
  findUses(scene);
  return scene;
}

/** The placed nodes, and per layout node the index of its first drawn node. A strip is a frame with a bar per block. */
function sceneNodes(
  { graph, plan, shapes, times, direction }: Sized,
  placed: Placement,
  frames: SceneFrame[],
  measure: Measure,
  window: Size,
): { nodes: SceneNode[]; first: Int32Array } {
  const horizontal = isHorizontal(direction);
  const isReversed = direction === "right" || direction === "down";
  const at = turn(direction, placed.height);
  const flags = flagsIn(graph, plan);
  const first = new Int32Array(placed.owner.length);
  const nodes: SceneNode[] = [];
  placed.owner.forEach((owner, index) => {
    const { id, group, strip, frame, inSign, also } = plan.nodes[owner];
    const [x, y] = at(placed.x[index], placed.y[index]);
    const only = onlyOn(graph, plan.nodes[owner]);
    const isStated = frames[frame]?.isStated;
    const lack = only ? { only, ...(isStated && { isStated }) } : {};
    const place = { x, y, rank: placed.rank[index], shape: shapes[owner], ...lack };
    first[index] = nodes.length;
    if (strip) {
      const depth = frame < 0 ? 0 : frames[frame].depth + 1;
      const next = nodes.length;
      const row = placeStrip(
        strip,
        { at: place, number: next, horizontal, isReversed, depth },
        measure,
        window,
      );
      for (const bar of row.bars) {
        const fine = fineTexts(graph, bar, bar.shape, bar.bar?.room);
        nodes.push({ ...bar, index: nodes.length, ...(fine.length > 0 && { fine }) });
      }
      frames.push(row.frame);
      return;
    }
    const leaf = isLeaf(graph, plan.nodes[owner]);
    const fine = fineTexts(graph, { id, ...(group && { group }) }, place.shape);
    nodes.push({
      ...place,
      index: nodes.length,
      id,
      leaf,
      ...(fine.length > 0 && { fine }),
      root: flags[owner].length > 0,
      copies: times[owner],
      ...(inSign && { inSign }),
      ...(group ? { group } : quietPart(graph.nodes[id])),
      ...(also && { also }),
    });
  });
  return { nodes, first };
}

/** Lead a strip's edges to its bars, and add the arrows between neighbours. */
function joinBars(scene: Scene, graph: GraphModel, plan: Plan, first: Int32Array): void {
  const horizontal = isHorizontal(scene.direction);
  scene.edges = edgesOnBars(graph, plan, scene.edges, first, scene.nodes, horizontal);
  scene.edgeOf = plan.edgeOf?.slice() ?? new Int32Array(graph.edges.length).fill(-1);
  for (const { index, merged } of scene.edges.slice(plan.edges.length))
    for (const e of merged?.edges ?? []) scene.edgeOf[e] = index;
}

/** The kind of a node outside autograd, for a `SceneNode`. */
export function quietPart({ kind }: NodeModel): Pick<SceneNode, "quiet"> {
  return kind === "op" || kind === "leaf" || kind === "call" ? {} : { quiet: kind };
}

/** The places of the signs with a node's ranks. */
function tagsOf(nodes: readonly SceneNode[]): Place[] {
  return nodes.flatMap(({ x, y, shape, only, isStated }) => {
    if (only === undefined || isStated || shape.sign) return [];
    const tag = onlyTag(shape, only);
    return [{ ...tag, x: x + tag.x, y: y + tag.y }];
  });
}

function sceneFrames(
  graph: GraphModel,
  plan: Plan,
  { boxes, height }: Placement,
  direction: Direction,
  measure: Measure,
): SceneFrame[] {
  const at = turn(direction, height);
  const depth: number[] = [];
  const facts = plan.frames.length > 0 ? factsOf(graph, plan) : [];
  const stated: boolean[] = [];
  return plan.frames.map(({ path, parent }, i) => {
    depth.push(parent < 0 ? 0 : depth[parent] + 1);
    const [ax, ay] = at(boxes.left[i], boxes.top[i]);
    const [bx, by] = at(boxes.left[i] + boxes.width[i], boxes.top[i] + boxes.height[i]);
    const [left, right] = [Math.min(ax, bx), Math.max(ax, bx)];
    const isAround = stated[parent] === true;
    const only = isAround ? null : facts[i].only;
    const own = { ...facts[i], only };
    const words = fittedFacts(own, titleWidth(graph, path, measure), right - left, measure);
    const says = only !== null && words.some(({ text }) => text.startsWith(only)) ? only : null;
    stated.push(isAround || says !== null);
    return {
      path,
      title: fittedTitle(graph, path, right - left, measure),
      facts: words,
      ...(says !== null && { says }),
      ...(stated[i] && { isStated: true }),
      depth: depth[i],
      left,
      right,
      top: Math.min(ay, by),
      bottom: Math.max(ay, by),
    };
  });
}
