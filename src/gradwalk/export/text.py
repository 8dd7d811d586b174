"""The captured graph as text, for terminals, screen readers and notebooks without a kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..english import plural
from ..graph.labels import short_value, without_backward
from ..lazily import nx
from ..schema.graph import GraphModel
from ..schema.values import Values

_DEEP = 8  # above this path length, the longest path is not indented

_MOST_LEVELS = 10  # branches nested deeper than this are printed separately, at the end


def text_tree(graph: nx.MultiDiGraph, most: int = 1000, model: GraphModel | None = None) -> str:
    """Return the graph as a tree of lines: outputs first, inputs below their node.

    A line reads "argument: id operation shape = value". Inputs are indented below their node; ``↳``
    is an input of the last line *on the same level*, so that a chain of operations stays on one
    level. A deep graph has its longest path last, at one level. A node is printed once; its other
    uses read "→ see" and its id.
    """
    heights = _heights(graph)
    tree = _Tree(graph, heights, max(heights.values(), default=0) >= _DEEP)
    if model is not None:
        tree.values = values_in(model)
        for each in model["derivatives"]:
            tree.derivative_of.setdefault(each["node"], []).append(each["of"])
    lines: list[str] = []
    for line in tree.lines():
        if len(lines) == most:
            lines.append(_cut_note(len(graph) - len(tree.printed), len(graph)))
            break
        lines.append(line)
    return "\n".join(lines)


@dataclass(frozen=True)
class _Line:
    """A line to print."""

    node: int  # its node
    output_nr: int  # the index of the node's output that is used here
    argument: str = ""  # the argument of the node above; "" for an output of the graph
    before: str = ""  # the prefix of the line
    indent: str = ""  # the prefix of the lines below it
    level: int = 0  # the number of branches around it
    is_aside: bool = False  # whether a longer path follows elsewhere, which prints the shared nodes


@dataclass
class _Tree:
    graph: nx.MultiDiGraph
    heights: dict[int, int]
    is_deep: bool
    values: Mapping[int, Values] = field(default_factory=dict)
    derivative_of: dict[int, list[int]] = field(default_factory=dict)
    printed: set[int] = field(default_factory=set)
    postponed: deque[int] = field(default_factory=deque)

    def lines(self) -> Iterator[str]:
        """Yield every line; a node enters ``printed`` once its own line is consumed."""
        roots = self.graph.graph["roots"]
        known = {node for node, _ in roots}
        unused = [(node, 0) for node, uses in self.graph.in_degree() if not uses]  # of static ones
        roots = [*roots, *(each for each in unused if each[0] not in known)]
        waiting = [_Line(*root) for root in reversed(roots)]
        while waiting or self.postponed:
            if not waiting:
                node = self.postponed.popleft()
                if node in self.printed:
                    continue
                waiting.append(_Line(node, 0))
            place = waiting.pop()
            start = f"{place.before}{place.argument}{': ' if place.argument else ''}"
            if place.node in self.printed or self._is_postponed(place):
                yield f"{start}→ see {_reference(self.graph.nodes[place.node], place)}"
                continue
            value, of = self.values.get(place.node), self.derivative_of.get(place.node, [])
            yield start + _describe(self.graph.nodes[place.node], place, value, of)
            self.printed.add(place.node)
            waiting += reversed(self._inputs(place))

    def _is_postponed(self, place: _Line) -> bool:
        """Whether to print the node later: on a deeper path, or as a separate tree."""
        deep = self.heights[place.node] >= _DEEP
        shared = place.is_aside and deep and self.graph.in_degree(place.node) > 1
        if shared or (place.level > _MOST_LEVELS and self.heights[place.node] > 0):
            self.postponed.append(place.node)
            return True
        return False

    def _inputs(self, place: _Line) -> list[_Line]:
        edges = [
            (target, edge)
            for target, between in self.graph.adj[place.node].items()
            for edge in between.values()
        ]
        # The argument of a constant is sometimes unknown.
        edges.sort(key=lambda each: (each[1]["arg_nr"] is None, each[1]["arg_nr"] or 0))
        if not edges:
            return []
        main = max(range(len(edges)), key=lambda i: self.heights[edges[i][0]])
        on_same_level = len(edges) == 1 or self.is_deep
        if on_same_level:  # last, because it may be long
            edges.append(edges.pop(main))
        *first, last = edges
        branches = [_below(place, edge, ("├─ ", "│  "), 1, on_same_level) for edge in first]
        end = (("↳ ", ""), 0) if on_same_level else (("└─ ", "   "), 1)
        return [*branches, _below(place, last, *end)]


def _below(
    place: _Line,
    to: tuple[int, dict[str, Any]],
    signs: tuple[str, str],
    level: int,
    is_aside: bool = False,
) -> _Line:
    """Return the line of an input; ``signs``: what precedes it, and the lines below it."""
    target, edge = to
    before, indent = (place.indent + sign for sign in signs)
    is_aside = place.is_aside or is_aside
    argument = _argument(edge)
    return _Line(target, edge["output_nr"], argument, before, indent, place.level + level, is_aside)


def _heights(graph: nx.MultiDiGraph) -> dict[int, int]:
    """The length of the longest path from each node to a node without inputs."""
    heights = dict.fromkeys(graph, 0)
    inputs_left = {node: len(targets) for node, targets in graph.adj.items()}
    ready = [node for node, left in inputs_left.items() if left == 0]
    for node in ready:  # grows while we walk
        above = heights[node] + 1
        for consumer in graph.pred[node]:
            heights[consumer] = max(heights[consumer], above)
            inputs_left[consumer] -= 1
            if inputs_left[consumer] == 0:
                ready.append(consumer)
    return heights


def _argument(edge: dict[str, Any]) -> str:
    nr = "" if edge["arg_nr"] is None else f" {edge['arg_nr']}"
    return printable(edge["argument"] or f"input{nr}")


def _describe(
    data: dict[str, Any], place: _Line, value: Values | None, derivative_of: list[int]
) -> str:
    is_plain = data["kind"] != "op" and "fx_name" not in data
    kind = data["kind"] if is_plain else without_backward(data["op"])
    words = [str(place.node), printable(kind)]
    outputs = data["outputs"]
    if place.output_nr < len(outputs):
        name, shape = outputs[place.output_nr]["name"], outputs[place.output_nr]["shape"]
    else:
        name, shape = data["name"], data["shape"]
    if name:
        words.append(printable(name))
    if shape is not None:
        words.append(f"({', '.join(map(str, shape))})" if len(shape) else "scalar")
    written = short_value(value)
    if written is not None:
        words.append(f"= {printable(written)}")
    notes = [_output(place.output_nr, len(outputs))] if len(outputs) > 1 else []
    without_grad = [_argument(each) for each in data["no_grad_inputs"]]
    if without_grad:
        notes.append(f"no grad: {', '.join(without_grad)}")
    if derivative_of:
        notes.append(f"derivative of {', '.join(map(str, derivative_of))}")
    return ", ".join([" ".join(words), *notes])


def _reference(data: dict[str, Any], place: _Line) -> str:
    count = len(data["outputs"])
    return f"{place.node}, {_output(place.output_nr, count)}" if count > 1 else str(place.node)


def _output(nr: int, count: int) -> str:
    return f"output {nr} of {count}"  # counted from 0, as torch does


def printable(text: str) -> str:
    """Escape line breaks and control characters, which names may contain."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _cut_note(missing: int, total: int) -> str:
    if missing == 0:
        return f"… cut here; all {total:,} nodes are above, but not every use of them."
    return f"… cut here; {missing:,} of {total:,} nodes are not shown."


def values_in(model: GraphModel) -> dict[int, Values]:
    """Return the values of the nodes by id, without those that may have changed."""
    return {
        node["id"]: node["value"]
        for node in model["nodes"]
        if node["value"] is not None and node["changed"] is not None
    }


def size_of(graph: nx.MultiDiGraph) -> str:
    """Return the size of a graph in words: "6 nodes, 5 edges, 2 leaves"."""
    leaves = sum(kind == "leaf" for _, kind in graph.nodes(data="kind"))
    static = graph.graph.get("static")
    counts = [
        plural(len(graph), "node"),
        plural(graph.number_of_edges(), "edge"),
        plural(leaves, "input") if static else plural(leaves, "leaf", "leaves"),
    ]
    return ("static graph: " if static else "") + ", ".join(counts)
