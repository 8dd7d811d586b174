"""From a graph and the program behind it to what a live page computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import torch
from torch.autograd.graph import Node

from ...backward.recorded_pass import seeds as seeds_at
from ...schema.values import Values
from ...sources.graph_source import GraphSource
from ...torch_api.modes import random_numbers_kept, unseen
from ...torch_api.nodes import leaf_tensor, op_name
from ...torch_api.summary import plain_values
from ...tracing.annotate import Annotated
from ...tracing.source_line import SourceLine, here
from .tape import NotLiveError, Tape

_OTHER_GRAPH = (
    "The program made another graph when it ran again, so a live page would show other numbers. "
    "Write the page without live=True, or give interact() a function that makes the same graph "
    "each time."
)
MOST_CONTROLLED = 16
"""Tensors of more numbers have no controls."""


class StorageModel(TypedDict):
    """Memory: how many numbers of which dtype, and the numbers at the start."""

    dtype: str
    size: int
    numbers: list[Any] | None


class CallModel(TypedDict):
    """A call; its outputs are indices of views, None for an output that was not asked for."""

    name: str
    args: dict[str, Any]
    outputs: list[int | None]


class GuardModel(TypedDict):
    """Numbers that decided which way the program went."""

    view: int
    after: int
    numbers: list[Any]
    truth: bool
    line: str | None


class InputModel(TypedDict):
    """A leaf or a constant."""

    node: int
    name: str | None
    leaf: bool
    view: int
    grad: int | None
    before: list[Any] | None
    ranges: list[list[float]] | None


class ValueModel(TypedDict):
    """The value of a node: a view, read after so many calls; and what it was, if it is small."""

    node: int
    view: int
    after: int
    now: Values | None


class GradientModel(TypedDict):
    """A gradient at a node or along an edge."""

    at: int
    view: int


class ProgramModel(TypedDict):
    """Everything that a live page needs to compute a graph's numbers again."""

    storages: list[StorageModel]
    views: list[list[Any]]
    calls: list[CallModel]
    guards: list[GuardModel]
    inputs: list[InputModel]
    values: list[ValueModel]
    edges: list[GradientModel]
    arrived: list[GradientModel]
    note: str | None


class Constant(NamedTuple):
    """An operand that needs no grad and has a node in the picture."""

    node: int
    name: str | None
    tensor: torch.Tensor


class Forward(NamedTuple):
    """A way to run the program again."""

    run: Callable[[], Sequence[torch.Tensor]]
    """Returns the outputs of the graph, in the order of its roots."""
    leaves: Mapping[int, torch.Tensor] = {}
    """The leaves that it runs with, by the id of the graph's leaf; others are the graph's own."""
    constants: Sequence[Constant] = ()
    ranges: Mapping[str, Sequence[Sequence[float]]] = {}
    """Name of a leaf -> least, most and step of each number."""
    line: Callable[[], SourceLine | None] = here
    """Returns the line of the program that runs."""
    note: str | None = None
    """A sentence for the reader about what the page cannot know."""


def program_model(source: GraphSource, forward: Forward) -> ProgramModel:
    """Run a program again, and record what a page needs to do the same."""
    captured = source.autograd
    recording = source.recording
    assert captured is not None
    assert recording is not None
    tape = Tape(forward.line)
    leaves = {i: forward.leaves.get(id(leaf), leaf) for i, leaf in captured.leaves()}
    inputs = {i: tape.add_input(leaf) for i, leaf in leaves.items()}
    constants = [(each, tape.add_input(each.tensor)) for each in forward.constants]
    devices = {torch.device("cpu")}
    with unseen(), random_numbers_kept(devices), torch.enable_grad(), tape.recording():
        outputs = list(forward.run())
        made = len(tape.given)
        nodes = _same_graph(captured, outputs, leaves)
        seeds = _seeds(source, outputs)
        for seed in seeds:
            tape.add_input(seed)  # so that every call of backward is recorded: edits change them
        flows, arrived, hooks = _watched(nodes)
        try:
            grads = torch.autograd.grad(outputs, list(leaves.values()), seeds, allow_unused=True)
        finally:
            for hook in hooks:
                hook.remove()
    arrived |= {i: (g,) for i, g in zip(leaves, grads, strict=True) if g is not None}
    numbers = {node: i for i, node in enumerate(nodes)}
    values: dict[int, ValueModel] = {
        i: {"node": i, "view": view, "after": 0, "now": _shown(leaves[i])}
        for i, view in inputs.items()
    }
    for tensor, after in tape.given[:made]:
        found = None if tensor.grad_fn is None else numbers.get(tensor.grad_fn)
        if found is not None and tensor.output_nr == 0 and _is_only(captured, found):
            values[found] = {
                "node": found,
                "view": tape.view(tensor),
                "after": after,
                "now": _shown(tensor),
            }
    _check_values(source, values)
    by_edge: list[GradientModel] = [
        {"at": at, "view": tape.view(grad)} for at, grad in _along(source, flows)
    ]
    at_nodes: list[GradientModel] = [
        {"at": node, "view": tape.view(incoming[0])}
        for node, incoming in sorted(arrived.items())
        if len(incoming) == 1 and incoming[0] is not None
    ]
    grad_views = {each["at"]: each["view"] for each in at_nodes}
    names = captured.graph.nodes(data="name")
    before = {
        each["node"]: None if each["before"] is None else _list(each["before"]["values"])
        for each in (source.run or {"grads": []})["grads"]
    }
    listed: list[InputModel] = [
        {
            "node": i,
            "name": names[i],
            "leaf": True,
            "view": view,
            "grad": grad_views.get(i),
            "before": before.get(i),
            "ranges": _ranges(leaves[i], forward.ranges.get(names[i] or "")),
        }
        for i, view in inputs.items()
    ]
    order = {name: place for place, name in enumerate(forward.ranges)}
    # As the program computes: the graph counts its nodes from the output.
    listed.sort(key=lambda each: (order.get(each["name"] or "", len(order)), -each["node"]))
    listed += [
        {
            "node": each.node,
            "name": each.name,
            "leaf": False,
            "view": view,
            "grad": None,
            "before": None,
            "ranges": None if each.name is None else _ranges(each.tensor, None),
        }
        for each, view in constants
    ]
    return {
        "storages": [
            {"dtype": _dtype(each.dtype), "size": each.size, "numbers": each.numbers}
            for each in tape.storages
        ],
        "views": [[v.storage, list(v.shape), list(v.strides), v.offset] for v in tape.views],
        "calls": [{"name": c.name, "args": c.arguments, "outputs": c.outputs} for c in tape.calls],
        "guards": [
            {
                "view": g.view,
                "after": g.after,
                "numbers": g.numbers,
                "truth": g.is_truth,
                "line": _line(g.line),
            }
            for g in tape.guards
        ],
        "inputs": listed,
        "values": [values[i] for i in sorted(values)],
        "edges": by_edge,
        "arrived": at_nodes,
        "note": forward.note,
    }


def _same_graph(
    captured: Annotated, outputs: Sequence[torch.Tensor], leaves: Mapping[int, torch.Tensor]
) -> list[Node]:
    """Return the nodes of the program that ran again, in the order of the graph's ids."""
    roots = [_edge(output) for output in outputs]
    ids: dict[Node, int] = {}
    for node, _ in roots:
        ids.setdefault(node, len(ids))
    nodes = list(ids)
    for node in nodes:  # grows
        for child, _ in node.next_functions:
            if child is not None and child not in ids:
                ids[child] = len(nodes)
                nodes.append(child)
    same = len(nodes) == len(captured.nodes)
    same = same and [(ids[node], nr) for node, nr in roots] == list(captured.roots)
    before = {node: i for i, node in enumerate(captured.nodes)}
    for i, (node, other) in enumerate(zip(nodes, captured.nodes, strict=False)):
        same = same and op_name(node) == op_name(other)
        same = same and leaf_tensor(node) is leaves.get(i)
        same = same and [
            (None if child is None else ids[child], nr) for child, nr in node.next_functions
        ] == [(None if child is None else before[child], nr) for child, nr in other.next_functions]
    if not same:
        raise NotLiveError(_OTHER_GRAPH)
    return nodes


def _check_values(source: GraphSource, values: Mapping[int, ValueModel]) -> None:
    """Refuse a program that computed other values than the graph has."""
    for node in source.model["nodes"]:
        found = values.get(node["id"])
        if found is None or found["now"] is None or node["value"] is None:
            continue
        pairs = zip(_list(found["now"]) or [], _list(node["value"]) or [], strict=False)
        for now, before in pairs:
            if not _is_near(float(now), float(before)):
                raise NotLiveError(
                    f"{node['label']} was {before} and is {now} when the program runs again, so a "
                    "live page would show other numbers. A tensor that it uses was changed."
                )


def _is_near(one: float, other: float) -> bool:
    return repr(one) == repr(other) or math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-5)


def _edge(output: torch.Tensor) -> tuple[Node, int]:
    if not output.requires_grad:
        raise NotLiveError(_OTHER_GRAPH)
    if output.grad_fn is not None:
        return output.grad_fn, output.output_nr
    return torch.autograd.graph.get_gradient_edge(output)[:2]


def _seeds(source: GraphSource, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the gradients that the recorded pass started from."""
    captured, recording = source.autograd, source.recording
    assert captured is not None
    assert recording is not None
    known: dict[tuple[int, int], torch.Tensor] = {}
    for node in dict.fromkeys(root for root, _ in captured.roots):
        for nr, started in seeds_at(captured.graph, recording.run, node):
            known[node, nr] = started
    found = []
    for root, output in zip(captured.roots, outputs, strict=True):
        seed: torch.Tensor | None = known.get(root)
        if seed is None and output.numel() != 1:
            raise NotLiveError(
                "How backward started is not known, so a live page cannot run it again. Call "
                "widget.backward() before to_html()."
            )
        found.append(torch.ones_like(output) if seed is None else seed.detach().clone())
    return found


Gradients = tuple[torch.Tensor | None, ...]


def _watched(
    nodes: Sequence[Node],
) -> tuple[dict[int, Gradients], dict[int, Gradients], list[Any]]:
    """Return what will flow out of each node and into it, and the hooks that see it.

    Each edge gets memory of its own, so that a page can change one gradient alone.
    """
    passed: dict[int, Gradients] = {}
    arrived: dict[int, Gradients] = {}

    def hook(i: int) -> Callable[[Gradients, Gradients], Gradients]:
        def saw(outgoing: Gradients, incoming: Gradients) -> Gradients:
            passed[i] = tuple(None if grad is None else grad.clone() for grad in outgoing)
            arrived[i] = incoming
            return passed[i]

        return saw

    hooks = [
        node.register_hook(hook(i)) for i, node in enumerate(nodes) if leaf_tensor(node) is None
    ]
    return passed, arrived, hooks


def _along(
    source: GraphSource, flows: Mapping[int, Gradients]
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the gradient along each edge of the recorded run, by its place in the run."""
    run, edges = source.run, source.model["edges"]
    for place, edge in enumerate(run["edges"] if run else ()):
        source_node, arg_nr = edges[edge]["source"], edges[edge]["arg_nr"]
        outgoing = flows.get(source_node, ())
        grad = outgoing[arg_nr] if arg_nr is not None and arg_nr < len(outgoing) else None
        if grad is not None:
            yield place, grad


def _is_only(captured: Annotated, node: int) -> bool:
    return len(captured.attributes[node]["outputs"]) == 1


def _ranges(
    tensor: torch.Tensor, given: Sequence[Sequence[float]] | None
) -> list[list[float]] | None:
    """Return least, most and step of each number; None for too many numbers."""
    if not 1 <= tensor.numel() <= MOST_CONTROLLED or not tensor.is_floating_point():
        return None
    if given:
        return [list(each) for each in given]
    reach = max(1.0, 2 * float(tensor.detach().abs().nan_to_num(0, 0, 0).max()))
    most = float(f"{reach:.1g}")
    most = most if most >= reach else float(f"{2 * reach:.1g}")
    return [[-most, most, most / 100]] * tensor.numel()


def _shown(tensor: torch.Tensor) -> Values | None:
    return plain_values(tensor.detach()) if tensor.numel() <= MOST_CONTROLLED else None


def _list(values: Any) -> list[Any] | None:
    if values is None:
        return None
    found: list[Any] = []
    waiting = [values]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += reversed(each)
        else:
            found.append(each)
    return found


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _line(line: SourceLine | None) -> str | None:
    return None if line is None else f"{line.file}:{line.line}"
