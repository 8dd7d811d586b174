"""The calls and tensors inside a node, drawn in its place, and their details."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..graph.adjacency import attributes, copied, successors
from ..lazily import nx
from ..schema.values import Values

if TYPE_CHECKING:
    from ..backward.kept_gradients import KeptGradient
    from ..backward.recorded_run import Step
    from ..graph.capture import Capture
    from ..tracing.annotate import Annotated
    from ..tracing.source_line import SourceLine


@dataclass(frozen=True, eq=False)
class Inner:
    """A call inside a node, or a tensor that calls take."""

    attributes: dict[str, Any]  # the attributes of its drawn node, without the position
    about: str  # sentences that describe it
    origin: Any  # its object in the program or recording
    line: SourceLine | None = None  # its line of the user's program
    # The number of its tensors that are its results; the others are memory that it wrote into. None
    # if all are results.
    own: int | None = None
    value: Values | None = None  # its result, if that is small and not a gradient


@dataclass(frozen=True)
class Flow:
    """A value that one call inside passes to another."""

    made: Inner | int  # its producer; a number is the node's incoming gradient of that output
    part: int  # the index among the producer's results
    user: Inner  # the call that takes it
    place: int  # the index of the operand
    argument: str | None  # torch's name for the operand


@dataclass(frozen=True)
class InsideNumbers:
    """The known values inside a node, in one pass."""

    # The results of calls and tensors, within the budget of the pass.
    given: dict[Inner, list[KeptGradient | None]]
    note: str  # a sentence about their origin


@dataclass(frozen=True)
class Inside:
    """The inside of one node."""

    node: int  # its id
    # The calls, in the order in which they run, without getitem and size computations.
    calls: list[Inner]
    held: list[Inner]  # the tensors that they take besides gradients
    flows: list[Flow]  # the values passed between them
    # The calls that gradients flow through; the others use ``held`` alone.
    carrying: frozenset[Inner]
    gives: dict[int, Inner]  # arg_nr of the node -> the call that gives the gradient for it
    # Call -> the path of its module if known, "blocks/0/norm"; "" for the outermost.
    modules: dict[Inner, str]
    classes: dict[str, str]  # path -> the class of that module
    # Gives the values, of what flowed through the node in a pass. Raises
    # `gradwalk.torch_api.compiled.CannotOpenError` where they are not known, with why.
    numbers: Callable[[Step], InsideNumbers]


def with_inside(captured: Annotated, opened: Sequence[Inside]) -> Annotated:
    """Copy a graph and open some of its nodes.

    The copy's drawing has nodes of kind "call" after the autograd nodes, and their tensors as
    constants at the end. The ids of its other nodes are moved by ``calls``.
    """
    first, moved = len(captured.nodes), sum(len(each.calls) for each in opened)
    graph = _with_room(captured, moved)
    calls = (call for inside in opened for call in inside.calls)
    held = (each for inside in opened for each in inside.held)
    ids = {call: i for i, call in enumerate(calls, first)}
    ids |= {each: i for i, each in enumerate(held, len(graph))}
    for inside in opened:
        _put_inside(graph, first, inside, ids)
    extras = [
        extra._replace(
            sources=tuple(node if node < first else node + moved for node in extra.sources)
        )
        for extra in captured.extras
    ]
    return replace(captured, drawing=lambda: graph, extras=extras, calls=moved)


def _with_room(captured: Annotated, moved: int) -> nx.MultiDiGraph:
    """Copy the drawn graph, with free ids for calls after the autograd nodes."""
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


def _put_inside(graph: nx.MultiDiGraph, first: int, inside: Inside, ids: dict[Inner, int]) -> None:
    node = inside.node
    for place, call in enumerate(inside.calls):
        own = {"kind": "call", "sequence_nr": place, "inside": node, "requires_grad": False}
        graph.add_node(ids[call], **{**call.attributes, **own})
    for held in inside.held:
        own = {"kind": "constant", "sequence_nr": None, "inside": node}
        graph.add_node(ids[held], **{**held.attributes, **own})
    for flow in inside.flows:
        _put_flow(graph, inside, flow, ids)
    for target, between in successors(graph)[node].items():
        for nr, edge in between.items() if target < first else ():
            if nr in inside.gives:
                edge["via"] = ids[inside.gives[nr]]


def _put_flow(graph: nx.MultiDiGraph, inside: Inside, flow: Flow, ids: dict[Inner, int]) -> None:
    user = ids[flow.user]
    edge: dict[str, Any] = {"argument": flow.argument}
    if not isinstance(flow.made, Inner):
        edge.update(arg_nr=flow.made, output_nr=flow.place, kind="gradient")
        graph.add_edge(inside.node, user, key=flow.place, **edge)
    elif flow.made in inside.carrying:
        edge.update(arg_nr=flow.part, output_nr=flow.place, kind="gradient")
        graph.add_edge(ids[flow.made], user, key=flow.place, **edge)
    else:
        edge.update(arg_nr=flow.place, output_nr=flow.part, kind="constant")
        graph.add_edge(user, ids[flow.made], key=flow.place, **edge)


def names_of_inputs(captured: Capture, node: int) -> dict[int, str | None]:
    """Return the names of a node's next functions, by arg_nr."""
    return {
        key: captured.graph.nodes[target]["name"]
        for target, between in captured.successors[node].items()
        for key in between
    }


def tied(drawn: nx.MultiDiGraph) -> nx.MultiDiGraph:
    """Add to each edge of an opened node a parallel one from the call that gives its gradient."""
    found = [
        (edge["via"], target, nr, {k: v for k, v in edge.items() if k != "via"})
        for _, target, nr, edge in drawn.edges(data=True, keys=True)
        if "via" in edge
    ]
    drawn.add_edges_from(found)
    return drawn
