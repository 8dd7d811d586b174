import { moduleName } from "../interact/describe";
import { isAutograd } from "../scene/shown_graph";
import type { DetailsModel, GraphModel, SourceModel } from "../wire";

type Watched = Partial<Pick<DetailsModel, "about" | "requires_grad" | "is_leaf">> &
  Pick<
    DetailsModel,
    | "source"
    | "module"
    | "call"
    | "inplace"
    | "inferred"
    | "constants"
    | "cuts"
    | "explained"
    | "no_grad_inputs"
  >;

/** The data of `watch`: lines of an invented program. */
export function fakeWatched(graph: GraphModel, id: number): Watched {
  const node = graph.nodes[id];
  const feeding = graph.edges.filter(
    ({ source, kind }) => source === id && isAutograd(node) && kind === "constant",
  );
  const drawn = new Set(feeding.map(({ arg_nr }) => arg_nr));
  const isWatched = graph.nodes.some((each) => !isAutograd(each) && !each.inferred);
  const line: SourceModel = {
    file: "/home/ada/lesson/model.py",
    line: 12 + id,
    text: "h = w * x.detach() + b",
    function: "forward",
  };
  const about =
    node.kind === "cut"
      ? `No gradient flows here: detach() took it out of the graph. ${node.label} is a constant for backward.`
      : `${node.label} needs no grad: a constant for backward.`;
  return {
    ...(isAutograd(node) ? {} : { about, requires_grad: false, is_leaf: true }),
    source: isWatched && node.kind !== "leaf" ? line : null,
    module: node.namespace === null ? null : moduleName(node.namespace) || "Net",
    call: isWatched && node.kind === "op" ? "mul" : null,
    inplace: false,
    inferred: node.inferred,
    constants: feeding.map(({ target, argument, arg_nr }) => ({
      node: target,
      argument,
      arg_nr,
      label: graph.nodes[target].label,
      shape: graph.nodes[target].shape,
    })),
    no_grad_inputs: node.no_grad_inputs.filter(({ arg_nr }) => !drawn.has(arg_nr)),
    cuts: graph.edges
      .filter(({ source, kind }) => source === id && kind === "cut")
      .map(({ target }) => ({
        how: "detach",
        node: target,
        label: graph.nodes[target].label,
        line,
        region: null,
      })),
    explained:
      node.kind === "leaf"
        ? `${node.label} is part of the graph of the loss, but no backward pass has added to ${node.label}.grad since it was last cleared: call loss.backward().`
        : null,
  };
}
