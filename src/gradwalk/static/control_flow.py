"""Enter the graphs that control flow runs (``cond``, ``while_loop``, ``map``, ``scan``).

A control flow call takes graphs, its *bodies*, followed by their inputs. In an entered graph, the
inputs of a body are connected to the call's arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import Graph, GraphModule, Node

MOST_ENTERED = 20_000
"""The most body nodes that are drawn; a graph that runs several times counts each time."""

_WORDS = {
    "cond": ("if true", "if false"),
    "while_loop": ("condition", "body"),
    "map_impl": ("body",),
    "scan": ("step",),
}
"""The names of a call's bodies, in order."""


@dataclass(frozen=True)
class Body:
    """A graph that a call runs."""

    held: Node  # the call's argument that holds it
    graph: Graph  # the graph, unique to this body
    module: GraphModule  # the module for its ``get_attr`` and ``call_module`` nodes
    box: str  # the last part of the path of its box, "torch.cond: if true"
    outputs: list[Any]  # its results


@dataclass
class Entered:
    """A program with the bodies of its control flow."""

    # All nodes that compute or hold a value, in run order, each with the module of its graph: a
    # body comes before its call.
    nodes: list[tuple[Node, GraphModule]] = field(default_factory=list)
    bodies: dict[Node, list[Body]] = field(default_factory=dict)  # call -> its bodies
    # Node of a body -> the call, and the body.
    within: dict[Node, tuple[Node, Body]] = field(default_factory=dict)
    # Input of a body -> the value outside of every body.
    outer: dict[Node, Any] = field(default_factory=dict)


def enter(graph: Graph, module: GraphModule) -> Entered:
    """Enter the control flow of a program, where a call shows its inputs, and within limits."""
    entered = Entered()
    seen: set[Graph] = {graph}
    names: dict[str, int] = {}
    room = MOST_ENTERED
    # The stack of work: the rest of a graph, and a call that follows its bodies.
    waiting: list[Iterator[tuple[Node, GraphModule]]] = [_each(graph, module)]
    while waiting:
        node, of = next(waiting[-1], (None, None))
        if node is None or of is None:
            waiting.pop()
            continue
        if node.op == "output" or node in entered.outer:
            continue
        bodies = [] if node in entered.bodies else _bodies(node, of, names)
        size = sum(len(body.graph.nodes) for body in bodies)
        if not bodies or size > room:
            entered.nodes.append((node, of))
            continue
        room -= size
        bodies = [_own(body, seen) for body in bodies]
        entered.bodies[node] = bodies
        inputs = _inputs(node, of)
        given = [
            entered.outer.get(each, each) if isinstance(each, Node) else each for each in inputs
        ]
        for body in bodies:
            entered.outer.update(zip(_placeholders(body.graph), given, strict=True))
            entered.within.update((each, (node, body)) for each in body.graph.nodes)
        waiting.append(iter([(node, of)]))
        waiting += [_each(body.graph, body.module) for body in reversed(bodies)]
    closed = {
        each
        for node, _ in entered.nodes
        if node not in entered.bodies
        for each in node.all_input_nodes
    }
    entered.nodes = [
        (node, of)
        for node, of in entered.nodes
        if node in closed or not isinstance(_held(node, of), GraphModule) or not node.users
    ]
    return entered


def _each(graph: Graph, module: GraphModule) -> Iterator[tuple[Node, GraphModule]]:
    return ((node, module) for node in graph.nodes)


def _placeholders(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _held(node: Any, module: GraphModule) -> Any:
    """Return the value of a ``get_attr`` node; None for other nodes."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    try:
        return operator.attrgetter(str(node.target))(module)
    except AttributeError:
        return None


def _bodies(call: Node, module: GraphModule, names: dict[str, int]) -> list[Body]:
    """Return the bodies of a control flow call; empty for other calls or missing information."""
    if call.op != "call_function":
        return []
    held = [(each, _held(each, module)) for each in call.args]
    found = [
        (each, body)
        for each, body in held
        if isinstance(each, Node) and isinstance(body, GraphModule)
    ]
    takes = len(_inputs(call, module))
    if not found or any(len(_placeholders(body.graph)) != takes for _, body in found):
        return []
    op = str(getattr(call.target, "__name__", call.target))
    number = names[op] = names.get(op, 0) + 1
    words = _WORDS.get(op, ())
    called = f"torch.{op.removesuffix('_impl')}{f' {number}' if number > 1 else ''}"
    bodies = []
    for i, (node, body) in enumerate(found):
        word = words[i] if len(words) == len(found) else str(node.target)
        (output,) = (each for each in body.graph.nodes if each.op == "output")
        given = output.args[0]
        outputs = list(given) if isinstance(given, (list, tuple)) else [given]
        bodies.append(Body(node, body.graph, body, f"{called}: {word}", outputs))
    return bodies


def _inputs(call: Node, module: GraphModule) -> list[Any]:
    """Return the inputs of each body of a call: the arguments after the last body."""
    last = max(
        (i for i, each in enumerate(call.args) if isinstance(_held(each, module), GraphModule)),
        default=len(call.args),
    )
    found: list[Any] = []
    for value in call.args[last + 1 :]:
        if isinstance(value, str):  # torch's name for a graph that runs several times
            continue
        found += value if isinstance(value, (list, tuple)) else [value]
    return found


def _own(body: Body, seen: set[Graph]) -> Body:
    """Return a body with its own graph, copied if another call runs the same."""
    if body.graph not in seen:
        seen.add(body.graph)
        return body
    graph, copies = Graph(owning_module=body.module), dict[Node, Node]()
    graph.output(graph.graph_copy(body.graph, copies))
    for node, made in copies.items():
        made.meta = node.meta
    outputs = [copies[each] if isinstance(each, Node) else each for each in body.outputs]
    return replace(body, graph=graph, outputs=outputs)
