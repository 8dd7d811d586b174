// @vitest-environment jsdom
import { expect, it } from "vitest";
import { foldedScene } from "../arrange/pipeline";
import { tileGrads } from "../colours/tile_grads";
import { transformer } from "../demo/deep_models";
import { svgElement } from "../dom/element";
import { firstFolding, openBlock, toDepth } from "../fold/folding";
import { groupedGraph } from "../fold/grouped_graph";
import { recordingOf } from "../steps/recording";
import { fakeRun } from "../testing/fake_run";
import { tableMeasure } from "../text/metrics";
import { mapScale } from "./level_of_detail";
import { NO_MARKS } from "./marks";
import { SvgPainter } from "./painter";

it("has numbers near only, and bars as high at every scale", () => {
  const graph = transformer(6);
  const grouped = groupedGraph(graph);
  const { tree } = grouped;
  const [run] = grouped.runs;
  const closed = toDepth(tree, firstFolding(tree), 2);
  const folding = openBlock(tree, closed, run, tree.path[run[2]], 0);
  const scene = foldedScene(grouped, folding, "left", tableMeasure);
  const fake = fakeRun(graph, "fine");
  const recording = recordingOf(graph, fake.steps, fake.run);
  const { tiles } = tileGrads(graph, scene, recording, tableMeasure);
  const marks = { ...NO_MARKS, tiles, progress: { recording, cursor: fake.steps.length } };
  const layer = svgElement("g", "");
  const painter = new SvgPainter(layer);
  const heightsAt = (scale: number) => {
    const { nodes, edges } = scene;
    painter.draw({ scene, nodes, edges, marks, gradients: [], scale });
    const fills = [...layer.querySelectorAll(".gw-strip-fill")];
    return fills.map((fill) => Number(fill.getAttribute("height")));
  };
  const count = (name: string) => layer.querySelectorAll(name).length;
  const far = mapScale(scene) * 0.9;
  for (const scale of [1, far, 1, far]) {
    const heights = heightsAt(scale);
    expect(heights).toHaveLength(5);
    const most = Math.max(...heights);
    const shares = scene.nodes.filter(({ bar }) => bar).map(({ index }) => tiles.get(index)?.share);
    const largest = Math.max(...shares.map((share) => share ?? 0));
    heights.forEach((height, i) => {
      expect(height / most).toBeCloseTo((shares[i] ?? 0) / largest, 1);
    });
    expect(count(".gw-strip-number")).toBe(scale === 1 ? 5 : 0);
    const written = scene.nodes.filter(({ shape }) => typeof shape.tile?.number === "number");
    expect(written.length).toBeGreaterThan(0);
    expect(count(".gw-tile-number")).toBe(scale === 1 ? written.length : 0);
    expect(count(".gw-strip-bar .gw-map-name")).toBe(0);
  }
});
