import type { Measure } from "../text/measure";
import { counted } from "../text/number";
import { oneLine, shortenMiddle } from "../text/shorten";
import { groupTitle } from "./box_words";
import { fittedWords, type SceneFrame } from "./frame";
import { drawnFor } from "./members";
import type { NodeShape, Text } from "./node_shape";
import type { Gate, Lens, Strip } from "./plan";
import type { Place, Scene, SceneNode } from "./scene";
import type { Size } from "./views";

/** Room around a lens' content, above it for the head, and between the lens and its picture. Px. */
const PAD = 20;
const HEAD = 40;
const AWAY = 40;
/** The least room for a lens, px. */
const LEAST_ROOM = { width: 320, height: 170 };
/** Room for a number in its head, and for a sign, px. */
const NUMBER = 120;
const SIGN = 28;
const BASELINE = 22;

/** The window for a lens beside the picture: below it, or to the right if data flows down. */
export function lensRoom(scene: Size, room: Size, horizontal: boolean): Size {
  return horizontal
    ? {
        width: Math.max(LEAST_ROOM.width, room.width, scene.width) - 2 * PAD,
        height: Math.max(LEAST_ROOM.height, room.height - scene.height - AWAY - HEAD - PAD),
      }
    : {
        width: Math.max(LEAST_ROOM.width, room.width - scene.width - AWAY - 2 * PAD),
        height: Math.max(LEAST_ROOM.height, room.height, scene.height) - HEAD - PAD,
      };
}

/** The shape of an outside node: its name, with room for a gradient above. */
export function gateShape({ title }: Gate, measure: Measure): NodeShape {
  const text = shortenMiddle(oneLine(title), 150, (part) => measure(part, "cell"));
  const width = Math.ceil(Math.max(measure(text, "cell"), measure("‖grad‖ 0.0000", "name"))) + 8;
  const height = 34;
  return {
    ...{ width, height, outerWidth: width, outerHeight: height, outline: 0, flagHeight: 0 },
    texts: [{ text, style: "cell", x: 0, y: 12, anchor: "middle" }],
    stubs: [],
  };
}

export function withLens(
  main: Scene,
  inner: Scene,
  lens: Lens,
  { blocks }: Strip,
  bar: SceneNode,
  horizontal: boolean,
  measure: Measure,
): Scene {
  const size = {
    width: Math.max(inner.width + 2 * PAD, horizontal ? main.width : 0),
    height: Math.max(inner.height + HEAD + PAD, horizontal ? 0 : main.height),
  };
  const width = horizontal ? Math.max(main.width, size.width) : main.width + AWAY + size.width;
  const height = horizontal ? main.height + AWAY + size.height : Math.max(main.height, size.height);
  const around = moved(main, {
    dx: horizontal ? (width - main.width) / 2 : 0,
    dy: horizontal ? 0 : (height - main.height) / 2,
  });
  const at = around.nodes[bar.index];
  const left = horizontal ? (width - size.width) / 2 : main.width + AWAY;
  const top = horizontal ? main.height + AWAY : (height - size.height) / 2;
  const box = { left, top, right: left + size.width, bottom: top + size.height };
  const [w, h] = [at.shape.width / 2, at.shape.height / 2];
  const frame: SceneFrame = {
    ...headOf(lens, blocks, size.width, measure),
    ...box,
    path: lens.path,
    depth: 1 + Math.max(0, ...main.frames.map(({ depth }) => depth)),
  };
  if (frame.lens) {
    const wedge = horizontal
      ? [at.x - w, at.y + h, at.x + w, at.y + h, box.right - 12, top, left + 12, top]
      : [at.x + w, at.y - h, at.x + w, at.y + h, left, box.bottom - 12, left, top + 12];
    frame.lens = { ...frame.lens, wedge };
  }
  const within = moved(inner, {
    dx: left + (size.width - inner.width) / 2,
    dy: top + HEAD + (size.height - HEAD - PAD - inner.height) / 2,
    node: main.nodes.length,
    edge: main.edges.length,
    depth: frame.depth + 1,
  });
  const nodes = [...around.nodes, ...within.nodes];
  const edgeOf = main.edgeOf?.map((edge, e) =>
    (inner.edgeOf?.[e] ?? -1) >= 0 ? main.edges.length + (inner.edgeOf?.[e] ?? 0) : edge,
  );
  return {
    ...main,
    width,
    height,
    nodes,
    edges: [...around.edges, ...within.edges],
    drawn: drawnFor(nodes, main.drawn.length),
    frames: [...around.frames, frame, ...within.frames],
    ...(edgeOf && { edgeOf }),
  };
}

/** The head of a lens: "layers.7", its class, its size, and signs for its neighbours. */
function headOf(
  { path, kind, numbers, leaves, block }: Lens,
  blocks: Strip["blocks"],
  width: number,
  measure: Measure,
): Pick<SceneFrame, "title" | "facts" | "lens"> {
  const title = fittedWords(groupTitle(path), width / 3, measure);
  let right = width - SIGN;
  const steps = [1, -1].flatMap((by) => {
    const to = blocks[block + by];
    if (!to) return [];
    const text = by < 0 ? `‹ ${to.name}` : `${to.name} ›`;
    const words: Text = { text, style: "title", x: right - 8, y: BASELINE, anchor: "end" };
    right -= measure(text, "title") + 20;
    return [{ path: to.group.paths[0], text: words }];
  });
  let at = PAD + measure(title, "title") + 12;
  const said = [kind, numbers > 0 ? counted(numbers, "parameter") : null].filter(Boolean);
  const text = shortenMiddle(oneLine(said.join(" · ")), right - at - NUMBER, (part) =>
    measure(part, "cell"),
  );
  const facts: Text[] =
    text.length > 5 ? [{ text, style: "cell", x: at, y: BASELINE, anchor: "start" }] : [];
  at += facts.length > 0 ? measure(text, "cell") + 8 : 0;
  const close = { x: width - SIGN + 8, y: BASELINE - 4 };
  const gradient = { x: at, y: BASELINE };
  return { title, facts, lens: { wedge: [], steps, close, gradient, leaves } };
}

/** Move a picture, and renumber its items. */
function moved(
  { nodes, edges, frames }: Scene,
  {
    dx,
    dy,
    node = 0,
    edge = 0,
    depth = 0,
  }: Record<"dx" | "dy", number> & {
    node?: number;
    edge?: number;
    depth?: number;
  },
): Pick<Scene, "nodes" | "edges" | "frames"> {
  const place = <T extends Pick<Place, "x" | "y">>(one: T): T => ({
    ...one,
    x: one.x + dx,
    y: one.y + dy,
  });
  return {
    nodes: nodes.map((one) => ({
      ...place(one),
      index: one.index + node,
      ...(one.bar && { bar: { ...one.bar, strip: one.bar.strip + node } }),
    })),
    edges: edges.map((one) => {
      const [left, top, right, bottom] = one.bounds;
      return {
        ...one,
        index: one.index + edge,
        source: one.source + node,
        target: one.target + node,
        curve: one.curve.map((value, i) => value + (i % 2 ? dy : dx)),
        bounds: [left + dx, top + dy, right + dx, bottom + dy],
        label: one.label && place(one.label),
        ...(one.merged && { merged: { ...one.merged, signs: one.merged.signs.map(place) } }),
      };
    }),
    frames: frames.map((frame) => ({
      ...frame,
      left: frame.left + dx,
      right: frame.right + dx,
      top: frame.top + dy,
      bottom: frame.bottom + dy,
      depth: frame.depth + depth,
      ...(frame.lens && {
        lens: {
          ...frame.lens,
          wedge: frame.lens.wedge.map((value, i) => value + (i % 2 ? dy : dx)),
        },
      }),
    })),
  };
}
