import {
  type EdgeForm,
  type EdgeModel,
  type GraphModel,
  type NodeForm,
  type NodeModel,
  type PackedGraph,
  WIRE_VERSION,
} from "../wire";
import { damaged, entriesAt, isText, summed, unpackColumn } from "./column";

type Text = string | null;

/**
 * The graph that `gradwalk.packing.graph` packed, or throws one whole sentence that says what is wrong with it.
 * What is not packed, or of another version, stays as it is: `checkGraph` is next.
 */
export function unpackGraph(value: unknown): GraphModel {
  const packed = value as PackedGraph;
  if (!packed?.node_forms || packed.v !== WIRE_VERSION) return value as GraphModel;
  return {
    v: packed.v,
    static: packed.static,
    modules: packed.modules,
    nodes: nodesOf(packed),
    edges: edgesOf(packed),
    roots: packed.roots,
  };
}

function nodesOf({ nodes, node_forms, texts }: PackedGraph): NodeModel[] {
  const forms = entriesAt<NodeForm>(node_forms, unpackColumn(nodes?.form, "form"), "node_forms");
  const written = (column: "name" | "label" | "namespace" | "value") =>
    asLong(
      forms,
      entriesAt<Text>(texts, unpackColumn(nodes[column], column), "texts", isText),
      column,
    );
  const [names, labels] = [written("name"), written("label")];
  const [namespaces, values] = [written("namespace"), written("value")];
  // Field by field: spread objects are ten times slower to make and to read.
  return forms.map(({ kind, op, shape, no_grad_inputs, inferred }, id) => ({
    id,
    kind,
    op,
    label: labels[id] ?? (names[id] || values[id] || op),
    name: names[id],
    shape,
    no_grad_inputs,
    namespace: namespaces[id],
    value: values[id],
    inferred,
  }));
}

function edgesOf({ edges, edge_forms }: PackedGraph): EdgeModel[] {
  const forms = entriesAt<EdgeForm>(edge_forms, unpackColumn(edges?.form, "form"), "edge_forms");
  const sources = asLong(forms, summed(unpackColumn(edges.source, "source")), "source");
  const behind = asLong(forms, unpackColumn(edges.target, "target"), "target");
  // One more than any target so far: nodes are numbered breadth-first, so most edges lead to it.
  let following = 0;
  return forms.map(({ argument, input_nr, output_nr, kind }, i) => {
    const target = following - behind[i];
    following = Math.max(following, target + 1);
    return { source: sources[i], target, argument, input_nr, output_nr, kind };
  });
}

function asLong<T>(forms: readonly unknown[], rows: T[], name: string): T[] {
  return rows.length === forms.length ? rows : damaged(name);
}
