import { boardValues } from "../text/gradient";
import type { Measure, Style } from "../text/measure";
import type { GraphModel, NodeModel } from "../wire";
import type { CardSize, Text } from "./node_shape";
import type { Scene } from "./scene";

/** The styles of a number, best first: a smaller one where it would not fit. */
const STYLES: Record<CardSize, readonly Style[]> = {
  full: ["number", "digits", "cell"],
  near: ["digits", "cell"],
};

/** What stands for a number that is not told. */
const UNTOLD = "?";

/** The same picture with the numbers that its nodes hold now: no box and no line is another. */
export function renewed(scene: Scene, graph: GraphModel, measure: Measure): Scene {
  let isOther = false;
  const nodes = scene.nodes.map((node) => {
    const { shape, id, group } = node;
    const at = shape.texts.findIndex(({ room }) => room !== undefined);
    if (at < 0 || group) return node;
    const before = shape.texts[at];
    const now = numberIn(graph.nodes[id], before, shape.card?.size ?? "near", measure);
    if (now.text === before.text) return node;
    isOther = true;
    return {
      ...node,
      shape: { ...shape, texts: shape.texts.map((text, i) => (i === at ? now : text)) },
    };
  });
  return isOther ? { ...scene, nodes } : scene;
}

function numberIn({ value }: NodeModel, before: Text, size: CardSize, measure: Measure): Text {
  const text = value === null ? UNTOLD : boardValues(value);
  const { room = 0 } = before;
  const styles = before.style === "cell" ? STYLES.near : STYLES[size];
  const style = styles.find((one) => measure(text, one) <= room) ?? styles[styles.length - 1];
  return { ...before, text, style };
}
