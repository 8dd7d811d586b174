import type { Measure, Style } from "../text/measure";
import type { GraphModel, NodeModel } from "../wire";
import type { CardSize, Text } from "./node_shape";
import { rowsOf, valueText } from "./node_words";
import type { Scene } from "./scene";

/** The styles of a number, best first; smaller ones fit more. */
const STYLES: Record<CardSize, readonly Style[]> = {
  full: ["number", "digits", "cell"],
  near: ["digits", "cell"],
};

/** Shown instead of a hidden number. */
const UNTOLD = "?";

/** The same picture with its nodes' current numbers; boxes and lines stay. */
export function renewed(scene: Scene, graph: GraphModel, measure: Measure): Scene {
  let isOther = false;
  const nodes = scene.nodes.map((node) => {
    const { shape, id, group } = node;
    const before = shape.texts.filter(({ room }) => room !== undefined);
    if (before.length === 0 || group) return node;
    const told = numbersIn(graph.nodes[id], before.length);
    if (before.every(({ text }, i) => text === told[i])) return node;
    isOther = true;
    const texts = shape.texts.map((text) => {
      const line = before.indexOf(text);
      return line < 0 ? text : written(text, told[line], shape.card?.size ?? "near", measure);
    });
    return { ...node, shape: { ...shape, texts } };
  });
  return isOther ? { ...scene, nodes } : scene;
}

/** The number of a node, or the rows of a matrix. */
function numbersIn(node: NodeModel, lines: number): readonly string[] {
  const { value } = node;
  if (value === null) return Array.from({ length: lines }, (_, i) => (i === 0 ? UNTOLD : ""));
  const rows = lines > 1 ? rowsOf(node) : null;
  return rows?.length === lines ? rows : [valueText(node, value)];
}

function written(before: Text, text = "", size: CardSize, measure: Measure): Text {
  const { room = 0 } = before;
  const styles = before.style === "cell" ? STYLES.near : STYLES[size];
  const style = styles.find((one) => measure(text, one) <= room) ?? styles[styles.length - 1];
  return { ...before, text, style };
}
