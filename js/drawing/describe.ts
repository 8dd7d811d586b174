import { describeState } from "../steps/words";
import { counted } from "../text/number";
import { formatShape } from "../text/shape";
import { oneLine } from "../text/shorten";
import type { GraphModel } from "../wire";
import { argumentOf, flagsOf } from "./content";
import type { Marks } from "./marks";

/** A node in words: for the tooltip, one line each, and for a screen reader. */
export interface Description {
  title: string;
  lines: string[];
}

export function describe(graph: GraphModel, id: number, marks: Marks): Description {
  const node = graph.nodes[id];
  const leaf = node.kind === "leaf";
  const name = node.name === null ? null : oneLine(node.name);
  const flags = flagsOf(graph).get(id);
  const uses = graph.edges.reduce((sum, edge) => sum + (edge.target === id ? 1 : 0), 0);
  const lines: string[] = [];
  lines.push(
    leaf ? "leaf that requires grad" : name === null ? "operation" : `${node.op}, an operation`,
  );
  if (flags)
    lines.push(
      flags.every((flag) => flag === node.name)
        ? "output"
        : `output: ${flags.map(oneLine).join(", ")}`,
    );
  if (node.shape !== null) lines.push(`shape ${formatShape(node.shape)}`);
  if (leaf && uses > 1) lines.push(`used ${counted(uses, "time")}`);
  if (node.no_grad_inputs.length > 0) {
    lines.push(`no grad: ${node.no_grad_inputs.slice(0, 8).map(argumentOf).join(", ")}`);
  }
  if (marks.progress) {
    lines.push(describeState(marks.progress, id));
    for (const { note } of marks.progress.recording.marks.get(id) ?? []) lines.push(oneLine(note));
  } else if (marks.ran)
    lines.push(marks.reached.has(id) ? "a gradient arrived" : "no gradient arrived");
  if (marks.freed.has(id)) lines.push("saved tensors freed");
  return { title: name ?? (leaf ? oneLine(node.label) : node.op), lines };
}
