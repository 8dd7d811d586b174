"""What is inside a compiled node: the calls of its backward program, as nodes of a graph."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from ..forward.annotate import Annotated
from ..graph.adjacency import attributes, copied, successors
from ..graph.capture import Capture
from ..graph.compiled import (
    CannotOpenError,
    CompiledBackward,
    adds_gradients,
    compiled_backward,
    gives_tensors,
    is_call,
    is_recomputed,
)
from ..modules.paths import common_ancestor
from .fx_graph import Source, describe, operands

if TYPE_CHECKING:
    import networkx as nx

MADE_BY = "torch.compile"


@dataclass(frozen=True)
class Flow:
    """A value that goes from one place of a backward program to another.

    Attributes:
        made: The call or placeholder that gives it.
        part: Which of several that it gives.
        user: The call that takes it.
        place: As which of its operands.
        argument: What torch calls that operand.
    """

    made: Node
    part: int
    user: Node
    place: int
    argument: str | None


@dataclass(frozen=True)
class Inside:
    """The backward program of one compiled node.

    Attributes:
        node: The id of the compiled node.
        backward: The program, tied to the node.
        calls: Its calls, in the order in which they run. Taking one tensor of several is none, nor
            is working out a size.
        saved: The tensors that it takes beside gradients.
        flows: What goes from where to where.
        carrying: The calls that gradients flow through; the others work on saved tensors alone.
        modules: Call -> the path of its module, "blocks/0/norm", "" for the outermost, as far as
            it is known.
        classes: Path -> the class of that module.
    """

    node: int
    backward: CompiledBackward
    calls: list[Node]
    saved: list[Node]
    flows: list[Flow]
    carrying: frozenset[Node]
    modules: dict[Node, str]
    classes: dict[str, str]


def read_inside(captured: Annotated, node: int) -> Inside:
    """The backward program of a compiled node.

    Args:
        captured: The graph.
        node: The id of the node.

    Raises:
        CannotOpenError: Why there is none to look at.
    """
    backward = compiled_backward(captured.nodes[node])
    graph = backward.graph
    calls = [each for each in graph.nodes if is_call(each)]
    flows: list[Flow] = []
    carrying = set(backward.tangents)
    for call in calls:
        for place, (argument, value) in enumerate(operands(call, backward.module)):
            if isinstance(value, Node) and gives_tensors(value):
                made, part = _made(value)
                flows.append(Flow(made, part, call, place, argument))
                if made in carrying:
                    carrying.add(call)
    used = {flow.made for flow in flows}
    saved = [each for each in graph.nodes if each.op in ("placeholder", "get_attr")]
    modules, classes = _modules(calls, flows)
    return Inside(
        node,
        backward,
        calls,
        [each for each in saved if each in used and each not in backward.tangents],
        flows,
        frozenset(carrying),
        modules,
        classes,
    )


def called_of_saved(held: Node) -> str:
    """What to call a saved tensor that has no name: after what gave it, or its place."""
    number = str(held.target).removeprefix("primals_")
    return f"argument {number}" if number.isdigit() else held.name


def names_of_saved(captured: Capture, node: int) -> list[str]:
    """What the tensors are that a compiled node saved, in their order; none if that is not known.

    Args:
        captured: The graph.
        node: The id of the node.
    """
    try:
        backward = compiled_backward(captured.nodes[node])
    except CannotOpenError:
        return []
    names = _names_of_inputs(captured, node)
    given = (names.get(backward.parameters.get(str(each.target), -1)) for each in backward.saved)
    return [
        name or called_of_saved(each)
        for each, name in zip(backward.saved, given, strict=True)
        if gives_tensors(each)
    ]


def _made(value: Node) -> tuple[Node, int]:
    """What gives a value, and which of its tensors it is."""
    part = 0
    while value.target is operator.getitem and isinstance(value.args[0], Node):
        index = value.args[1]
        part = index if isinstance(index, int) else 0
        value = value.args[0]
    return value, part


_ITEM = re.compile(r"\[['\"]?([^\]'\"]*)['\"]?\]")


def _modules(
    calls: Sequence[Node], flows: Sequence[Flow]
) -> tuple[dict[Node, str], dict[str, str]]:
    """The module of each call, and the classes of the modules, by their paths."""
    stacks = {call: _stack(call) for call in calls}
    paths = {path for stack in stacks.values() for path, _ in stack}
    several = len({path[:1] for path in paths}) > 1
    # What is compiled is a module's own forward, if that module never stands in a stack itself.
    is_forward = bool(paths) and not several and all(len(path) > 1 for path in paths)
    found: dict[Node, str] = {}
    classes: dict[str, str] = {}
    for call, stack in stacks.items():
        for path, name in stack:  # several modules that the compiled function takes have names
            found[call] = "/".join(path if several else path[1:])
            classes[found[call]] = name
    taken: dict[Node, list[Node]] = {}
    for flow in flows:
        taken.setdefault(flow.user, []).append(flow.made)
    for call in calls:
        if call not in found and adds_gradients(call):
            # The tensor is used in all of these modules, so it is one of what is around them.
            around = [found[made] for made in taken.get(call, ()) if made in found]
            if around:
                found[call] = common_ancestor(around, "/")
        elif call not in found and is_forward:
            found[call] = ""
    return found, classes


def _stack(call: Node) -> list[tuple[tuple[str, ...], str]]:
    """The modules around a call, or around what it is the backward of, from the outside.

    Returns:
        Path and class of each. A path begins with the variable that holds the outermost module:
        ("net", "blocks", "0") for what torch calls "L['net'].blocks.0".
    """
    stack = call.meta.get("fwd_nn_module_stack") or call.meta.get("nn_module_stack") or {}
    found = []
    for path, kind in stack.values():
        plain = _ITEM.sub(r".\1", path.partition("@")[0]).replace("._modules", "")
        name = kind.__qualname__ if isinstance(kind, type) else str(kind)
        found.append((tuple(plain.split(".")[1:]), name.rpartition(".")[2]))
    return found


def with_inside(captured: Annotated, opened: Sequence[Inside]) -> Annotated:
    """A graph with what is inside of some of its compiled nodes.

    Args:
        captured: The graph; it is not changed.
        opened: What is inside of them.

    Returns:
        The same, drawn with nodes of kind "call" after the autograd nodes, and the saved tensors
        that these take as constants at the end; what came after the autograd nodes before has
        moved by ``calls``.
    """
    first, moved = len(captured.nodes), sum(len(each.calls) for each in opened)
    graph = _with_room(captured, moved)
    ids: dict[tuple[int, Node], int] = {}
    for inside in opened:
        for call in inside.calls:
            ids[inside.node, call] = first + len(ids)
    at_end = len(graph)
    for inside in opened:
        for held in inside.saved:
            ids[inside.node, held] = at_end
            at_end += 1
    for inside in opened:
        _put_inside(graph, captured, inside, ids)
    extras = [
        replace(
            extra,
            sources=tuple(node if node < first else node + moved for node in extra.sources),
        )
        for extra in captured.extras
    ]
    return replace(captured, drawn=graph, extras=extras, calls=moved)


def _with_room(captured: Annotated, moved: int) -> nx.MultiDiGraph:
    """A copy of what is drawn, with room for calls after the autograd nodes."""
    import networkx as nx  # noqa: PLC0415  slow to import

    first = len(captured.nodes)
    drawn = copied(captured.drawn, lambda _: {}, {})
    for following in successors(drawn).values():
        for between in following.values():
            for edge in between.values():
                edge.setdefault("kind", "gradient")
    if moved == 0:
        return drawn
    now = {node: node if node < first else node + moved for node in drawn}
    graph = nx.MultiDiGraph(**drawn.graph)
    data = attributes(drawn)
    for node in range(first):
        graph.add_node(node, **data[node])
    graph.add_nodes_from(range(first, first + moved))
    for node in range(first, len(drawn)):
        graph.add_node(now[node], **data[node])
    graph.add_edges_from(
        (now[source], now[target], key, edge)
        for source, target, key, edge in drawn.edges(data=True, keys=True)
    )
    return graph


def _put_inside(
    graph: nx.MultiDiGraph, captured: Annotated, inside: Inside, ids: dict[tuple[int, Node], int]
) -> None:
    backward, node = inside.backward, inside.node
    source = Source(backward.graph, backward.module, {}, {}, MADE_BY)
    for place, call in enumerate(inside.calls):
        described = describe(call, source)
        described.update(
            kind="call",
            namespace=inside.modules.get(call),
            sequence_nr=place,
            inside=node,
            seq_nr=call.meta.get("seq_nr"),
            recomputed=is_recomputed(call),
            requires_grad=False,
        )
        known = [each for each in described["outputs"] if each["shape"] is not None]
        if described["shape"] is None and known:  # of several, some can be left out
            described.update({key: known[0][key] for key in ("shape", "dtype", "device")})
        graph.add_node(ids[node, call], **described)
    names = _names_of_inputs(captured, node)
    for held in inside.saved:
        described = describe(held, source)
        nr = backward.parameters.get(str(held.target))
        name = names.get(nr) if nr is not None else None
        described.update(
            kind="constant",
            op=called_of_saved(held),
            name=name,
            namespace=None,
            sequence_nr=None,
            inside=node,
        )
        graph.add_node(ids[node, held], **described)
    for flow in inside.flows:
        _put_flow(graph, inside, flow, ids)
    own = {
        nr: edge
        for target, between in successors(graph)[node].items()
        if target < len(captured.nodes)
        for nr, edge in between.items()
    }
    for nr, value in backward.gradients.items():
        made = ids.get((node, _made(value)[0]))
        if made is not None and graph.nodes[made]["kind"] == "call":
            own[nr]["via"] = made


def _put_flow(
    graph: nx.MultiDiGraph, inside: Inside, flow: Flow, ids: dict[tuple[int, Node], int]
) -> None:
    user = ids[inside.node, flow.user]
    if flow.made in inside.backward.tangents:
        made, part = inside.node, inside.backward.tangents[flow.made]
    else:
        made, part = ids[inside.node, flow.made], flow.part
    edge: dict[str, Any] = {"argument": flow.argument}
    if flow.made in inside.carrying:
        edge.update(input_nr=part, output_nr=flow.place, kind="gradient")
        graph.add_edge(made, user, key=flow.place, **edge)
    else:
        edge.update(input_nr=flow.place, output_nr=part, kind="constant")
        graph.add_edge(user, made, key=flow.place, **edge)


def _names_of_inputs(captured: Capture, node: int) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for target, between in successors(captured.graph)[node].items():
        for key in between:
            found[key] = captured.graph.nodes[target]["name"]
    return found


def tied(drawn: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """A graph with compiled nodes opened, in which calls lead to where their gradients go.

    Args:
        drawn: What `with_inside` drew. It is changed: beside each of a compiled node's own edges
            comes one from the call that gives its gradient.
    """
    found = [
        (edge["via"], target, nr, {k: v for k, v in edge.items() if k != "via"})
        for _, target, nr, edge in drawn.edges(data=True, keys=True)
        if "via" in edge
    ]
    drawn.add_edges_from(found)
    return drawn
