import dagre, { type EdgeLabel, type Graph, type GraphLabel, type NodeLabel } from "@dagrejs/dagre";
import {
  coordGreedy,
  decrossDfs,
  graph as emptyGraph,
  type GraphNode,
  layeringLongestPath,
  type NodeSize,
  sugiyama,
} from "d3-dag";
import ELK, { type ElkNode } from "elkjs";
import { layout } from "../../js/layout/index";
import type { Drawn } from "../../js/testing/drawn";
import { GAPS, type Prepared } from "./prepare";

/** Positions of a finished layout: the part of a drawing that a tool adds. */
export type Placed = Pick<Drawn, "x" | "y" | "points" | "start">;

/** A layout that can be made again and again, and then read. */
export interface Job {
  /** Hands the graph over in the tool's own form, before each run; not timed. */
  fresh?(): void;
  run(): unknown | Promise<unknown>;
  read(): Placed;
}

export type Tool = (graph: Prepared) => Job;

/** The tools that run in this engine. Peers have their own defaults but for the gaps, unless the name says otherwise. */
export const TOOLS: Record<string, Tool> = {
  gradwalk(graph) {
    let result: ReturnType<typeof layout>;
    return {
      run: () => {
        result = layout(graph, GAPS);
      },
      read: () => ({
        x: result.x,
        y: result.y,
        points: result.points,
        start: result.pointStart,
      }),
    };
  },
  "d3-dag": (graph) => d3Dag(graph, (size) => sugiyama().nodeSize(size)),
  "d3-dag, fastest": (graph) =>
    d3Dag(graph, (size) =>
      sugiyama()
        .layering(layeringLongestPath())
        .decross(decrossDfs())
        .coord(coordGreedy())
        .nodeSize(size),
    ),
  dagre: withDagre,
  elk: withElk,
};

type Sized = NodeSize<number, number>;

function d3Dag(
  { n, source, target, width, height }: Prepared,
  method: (size: Sized) => ReturnType<typeof sugiyama>,
): Job {
  const dag = emptyGraph<number, number>();
  const nodes: GraphNode<number, number>[] = [];
  for (let v = 0; v < n; v++) nodes.push(dag.node(v));
  const links = source.map((v, e) => dag.link(nodes[v] as never, nodes[target[e]] as never, e));
  const size = ({ data }: { data: number }) => [width[data], height[data]] as const;
  const operator = method(size as Sized).gap([GAPS.nodeGap, GAPS.rankGap]);
  return {
    run: () => operator(dag as never),
    read: () => ({
      x: nodes.map((node) => node.x),
      y: nodes.map((node) => node.y),
      ...flat(links.map((link) => link.points)),
    }),
  };
}

function withDagre({ n, source, target, width, height }: Prepared): Job {
  let graph: Graph<GraphLabel, NodeLabel, EdgeLabel>;
  const { nodeGap, rankGap, edgeGap } = GAPS;
  return {
    fresh: () => {
      graph = new dagre.graphlib.Graph({ multigraph: true });
      graph.setGraph({ nodesep: nodeGap, ranksep: rankGap, edgesep: edgeGap });
      for (let v = 0; v < n; v++) graph.setNode(String(v), { width: width[v], height: height[v] });
      source.forEach((v, e) => {
        graph.setEdge(String(v), String(target[e]), {}, String(e));
      });
    },
    run: () => dagre.layout(graph),
    read: () => {
      const nodes = Array.from({ length: n }, (_, v) => graph.node(String(v)));
      const lines = source.map((v, e) => {
        const { points = [] } = graph.edge(String(v), String(target[e]), String(e));
        return points.map(({ x, y }): [number, number] => [x, y]);
      });
      const [x, y] = [nodes.map((node) => Number(node.x)), nodes.map((node) => Number(node.y))];
      return { x, y, ...flat(lines) };
    },
  };
}

function withElk({ n, source, target, width, height }: Prepared): Job {
  const elk = new ELK();
  const { nodeGap, rankGap, edgeGap } = GAPS;
  const given = () => ({
    id: "root",
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": "DOWN",
      "elk.edgeRouting": "POLYLINE",
      "elk.separateConnectedComponents": "false",
      "elk.spacing.nodeNode": String(nodeGap),
      "elk.spacing.edgeNode": String(edgeGap),
      "elk.spacing.edgeEdge": String(edgeGap),
      "elk.layered.spacing.nodeNodeBetweenLayers": String(rankGap),
      "elk.layered.spacing.edgeNodeBetweenLayers": String(edgeGap),
      "elk.layered.spacing.edgeEdgeBetweenLayers": String(edgeGap),
    },
    children: Array.from({ length: n }, (_, v) => ({
      id: `n${v}`,
      width: width[v],
      height: height[v],
    })),
    edges: source.map((v, e) => ({ id: `e${e}`, sources: [`n${v}`], targets: [`n${target[e]}`] })),
  });
  let result: ElkNode;
  return {
    run: async () => {
      result = await elk.layout(given());
    },
    read: () => {
      const nodes = result.children ?? [];
      const lines = (result.edges ?? []).map(({ sections }) =>
        (sections ?? []).flatMap(({ startPoint, bendPoints, endPoint }) =>
          [startPoint, ...(bendPoints ?? []), endPoint].map(({ x, y }): [number, number] => [x, y]),
        ),
      );
      return {
        x: nodes.map(({ x }, v) => Number(x) + width[v] / 2),
        y: nodes.map(({ y }, v) => Number(y) + height[v] / 2),
        ...flat(lines),
      };
    },
  };
}

export function flat(lines: [number, number][][]): Pick<Drawn, "points" | "start"> {
  const start = [0];
  const points: number[] = [];
  for (const line of lines) {
    for (const [x, y] of line) points.push(x, y);
    start.push(points.length);
  }
  return { points, start };
}
