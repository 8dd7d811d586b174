import type { SceneFrame } from "../scene/frame";
import type { MergedEdges, Place, Scene, SceneEdge, SceneNode } from "../scene/scene";
import type { NodeShape, StubShape, Text } from "../scene/shape";
import { type Coder, NOTHING, type Packed, Reader, Writer } from "./coder";

/** After so many nodes or edges, unpacking can be interrupted. */
const SLICE = 500;

/** The scene of a folded graph in one buffer, which crosses from a worker without being copied, and its words. */
export function packScene(scene: Scene): Packed {
  const writer = new Writer();
  const steps = throughCoder(writer, scene);
  while (!steps.next().done);
  return writer.end();
}

/** The scene that was packed, equal in all its parts. Yields now and then, so that a page can answer in between. */
export function unpackScene(packed: Packed): Generator<undefined, Scene> {
  return throughCoder(new Reader(packed), NOTHING as Scene);
}

/** Leads a scene as `makeScene` makes it through a coder. */
function* throughCoder(coder: Coder, scene: Scene): Generator<undefined, Scene> {
  const number = (value: number) => coder.number(value);
  const [all, placeOf] = distinctShapes(scene.nodes ?? []);
  const shapes = coder.many(all, (shape) => shapeThrough(coder, shape));
  const result: Scene = {
    direction: coder.word(scene.direction),
    isStatic: number(Number(scene.isStatic)) === 1,
    width: number(scene.width),
    height: number(scene.height),
    nodes: new Array(number(scene.nodes?.length)),
    edges: new Array(number(scene.edges?.length)),
    drawn: Array.from({ length: number(scene.drawn?.length) }, () => []),
    frames: coder.many(scene.frames ?? [], (frame) => frameThrough(coder, frame)),
    edgeOf: Int32Array.from(coder.numbers(scene.edgeOf ?? [])),
  };
  const { nodes, edges, drawn } = result;
  for (let i = 0; i < nodes.length; i++) {
    if (i % SLICE === 0) yield;
    nodes[i] = nodeThrough(coder, scene.nodes?.[i] ?? NOTHING, i, shapes[number(placeOf[i])]);
    for (const member of nodes[i].group?.members ?? [nodes[i].id]) drawn[member].push(i);
  }
  for (let i = 0; i < edges.length; i++) {
    if (i % SLICE === 0) yield;
    edges[i] = edgeThrough(coder, scene.edges?.[i] ?? NOTHING, i);
  }
  return result;
}

/** Every shape once, and per node its place among them: nodes that look alike share one. */
function distinctShapes(nodes: readonly SceneNode[]): [NodeShape[], number[]] {
  const shapes: NodeShape[] = [];
  const known = new Map<NodeShape | string, number>();
  const places = nodes.map(({ shape }) => {
    const content = known.has(shape) ? "" : JSON.stringify(shape);
    const place = known.get(shape) ?? known.get(content) ?? shapes.push(shape) - 1;
    known.set(shape, place).set(content, place);
    return place;
  });
  return [shapes, places];
}

function shapeThrough(coder: Coder, shape: NodeShape): NodeShape {
  const number = (value: number) => coder.number(value);
  return {
    width: number(shape.width),
    height: number(shape.height),
    outerWidth: number(shape.outerWidth),
    outerHeight: number(shape.outerHeight),
    outline: number(shape.outline),
    flagHeight: number(shape.flagHeight),
    texts: coder.many(
      shape.texts,
      ({ text, style, x, y, anchor }): Text => ({
        text: coder.word(text),
        style: coder.word(style),
        x: number(x),
        y: number(y),
        anchor: coder.word(anchor),
      }),
    ),
    stubs: coder.many(
      shape.stubs,
      ({ line, x, y, argument, rest, text }): StubShape => ({
        line: coder.many(line, number) as StubShape["line"],
        x: number(x),
        y: number(y),
        argument: coder.word(argument),
        rest: coder.word(rest),
        text: { x: number(text?.x), y: number(text?.y) },
      }),
    ),
  };
}

function nodeThrough(
  coder: Coder,
  { id, leaf, root, copies, x, y, rank, quiet, group }: Partial<SceneNode>,
  index: number,
  shape: NodeShape,
): SceneNode {
  const number = (value: unknown) => coder.number(value as number);
  const node: SceneNode = {
    index,
    id: number(id),
    leaf: number(leaf) === 1,
    root: number(root) === 1,
    copies: number(copies),
    x: number(x),
    y: number(y),
    rank: number(rank),
    shape,
  };
  const kind = coder.word(quiet ?? "");
  if (kind) node.quiet = kind;
  const paths = coder.many(group?.paths ?? [], (path) => coder.word(path));
  if (paths.length > 0) node.group = { paths, members: coder.many(group?.members ?? [], number) };
  return node;
}

function edgeThrough(
  coder: Coder,
  { source, target, curve, bounds, label, quiet, merged, backward }: Partial<SceneEdge>,
  index: number,
): SceneEdge {
  const number = (value: unknown) => coder.number(value as number);
  const parts = merged ?? (NOTHING as MergedEdges);
  const edge: SceneEdge = {
    index,
    source: number(source),
    target: number(target),
    curve: coder.numbers(curve ?? []),
    bounds: coder.many(bounds ?? [], number) as SceneEdge["bounds"],
    label: coder.many(label ? [label] : [], (place) => placeThrough(coder, place))[0] ?? null,
    merged: {
      edges: coder.many(parts.edges, number),
      folded: coder.many(parts.folded, number),
      count: number(parts.count),
      signs: coder.many(parts.signs, (sign) => ({
        ...placeThrough(coder, sign),
        kind: coder.word(sign.kind),
      })),
    },
    backward: number(backward) === 1,
  };
  const kind = coder.word(quiet ?? "");
  if (kind) edge.quiet = kind;
  return edge;
}

function placeThrough(coder: Coder, place: Place & { text: string }): Place & { text: string } {
  return {
    x: coder.number(place.x),
    y: coder.number(place.y),
    width: coder.number(place.width),
    height: coder.number(place.height),
    text: coder.word(place.text),
  };
}

function frameThrough(coder: Coder, frame: SceneFrame): SceneFrame {
  return {
    path: coder.word(frame.path),
    title: coder.word(frame.title),
    depth: coder.number(frame.depth),
    left: coder.number(frame.left),
    right: coder.number(frame.right),
    top: coder.number(frame.top),
    bottom: coder.number(frame.bottom),
  };
}
