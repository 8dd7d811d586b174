import type { Channel } from "../../channel";
import type { Press } from "../../interact/hit";
import type { SceneNode } from "../../scene/scene";
import { VIEW_PARTS, type ViewPart } from "../../view/view_part";
import type { GraphModel } from "../../wire";

/** Ask Python to show or hide the inside of a node. Without a kernel, an open node's box folds like others. */
export class Opening implements ViewPart {
  constructor(private readonly channel: Pick<Channel, "get" | "send">) {}

  /** Open and close by a double click on the node or its box' head; false if the press is for something else. */
  pressed(graph: GraphModel, { node, frame, isSign, isDouble }: Press): boolean {
    if (!isDouble && !isSign) return false;
    if (frame !== null) return this.close(graph, frame);
    return isDouble && this.open(graph, node);
  }

  /** By keyboard: + opens a node, - closes its box. */
  keyed(graph: GraphModel, key: string, node: SceneNode): boolean {
    if (key === "+" || key === "=" || key === "Enter") return this.open(graph, node);
    const path = graph.nodes[node.id]?.namespace ?? null;
    return key === "-" && !node.group && path !== null && this.close(graph, path);
  }

  private get openable(): readonly number[] {
    return this.channel.get("_openable") ?? [];
  }

  private open(graph: GraphModel, node: SceneNode | null): boolean {
    if (!node || node.group || !this.openable.includes(node.id)) return false;
    if (isOpened(graph, node.id)) return false;
    this.channel.send({ kind: "expand", node: node.id });
    return true;
  }

  private close(graph: GraphModel, path: string): boolean {
    const node = this.openable.find(
      (id) => graph.nodes[id]?.namespace === path && isOpened(graph, id),
    );
    if (node === undefined) return false;
    this.channel.send({ kind: "collapse", node });
    return true;
  }
}

/** Whether the inside of a node is drawn. */
function isOpened({ nodes }: GraphModel, node: number): boolean {
  return nodes.some(({ inside }) => inside === node);
}

VIEW_PARTS.push(({ channel }) => new Opening(channel));
