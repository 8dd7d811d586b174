"""The graph that a widget draws, as text for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..schema.graph import GraphModel, NodeModel

_LONGEST = 1_000  # characters of a row; Graphviz reads no text of more than 16,384 bytes

_SHAPES = {
    "leaf": "box",
    "op": "box",
    "call": "box",
    "constant": "box",
    "cut": "plain",
    "outside": "box",
}


def dot_text(graphs: Mapping[str, GraphModel], direction: str = "down") -> str:
    """Write graphs in the DOT language; needs no package.

    Returns one ``digraph``: leaves are rounded, outputs have two outlines, edges carry argument
    names. Nodes are identified by their ids, after "g1_" and so on for several graphs.
    ``direction``: which way gradients flow: "down", "right", "up" or "left".
    """
    ranks = {"auto": "TB", "down": "TB", "right": "LR", "up": "BT", "left": "RL"}[direction]
    lines = [
        "digraph gradwalk {",
        f"  rankdir={ranks};",
        '  node [shape=box, fontname="Arial, Helvetica, sans-serif", fontsize=11];',
        '  edge [fontname="Arial, Helvetica, sans-serif", fontsize=9];',
    ]
    if len(graphs) == 1:
        lines += [line for graph in graphs.values() for line in _statements(graph)]
    else:
        for number, (label, graph) in enumerate(graphs.items(), 1):
            lines.append(f"  subgraph cluster_{number} {{ label={_quoted(_shortened(label))};")
            lines += [*_statements(graph, f"g{number}_"), "  }"]
    return "\n".join([*lines, "}", ""])


def _statements(graph: GraphModel, prefix: str = "") -> Iterator[str]:
    """Yield the lines of one graph."""
    roots = {root["node"] for root in graph["roots"]}
    if graph["static"]:
        yield "  edge [dir=back];  // data flows along the arrows"
    for node in graph["nodes"]:
        attributes = {"label": _label(node), "shape": _SHAPES[node["kind"]]}
        if node["kind"] == "leaf":
            attributes["style"] = "rounded"
        elif node["kind"] in {"constant", "outside"}:
            attributes["style"] = "dashed"
        if node["id"] in roots:
            attributes["peripheries"] = "2"
        yield f"  {prefix}{node['id']} [{_written(attributes)}];"
    for edge in graph["edges"]:
        attributes = {} if edge["argument"] is None else {"label": _shortened(edge["argument"])}
        if edge["kind"] != "gradient":
            attributes |= {"style": "dashed", "arrowhead": "none", "arrowtail": "none"}
        ends = f"{prefix}{edge['source']} -> {prefix}{edge['target']}"
        yield f"  {ends} [{_written(attributes)}];"


def _label(node: NodeModel) -> str:
    title = node["label"] if node["kind"] == "leaf" else node["op"]
    shape = node["shape"]
    rows = [title]
    if node["kind"] == "op" and node["name"] is not None:
        rows.append(node["name"])
    if shape is not None:
        rows.append("scalar" if not shape else str(tuple(shape)))
    return "\n".join(map(_shortened, rows))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _written(attributes: dict[str, str]) -> str:
    return ", ".join(f"{name}={_quoted(value)}" for name, value in attributes.items())


def _quoted(text: str) -> str:
    """Quote user text and escape what Graphviz would interpret."""
    safe = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
