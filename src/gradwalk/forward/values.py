"""What the forward pass gave at each node: the number on the board, as far as it is still known.

A value is shown only where it is the node's own: a tensor that was changed in place since tells
nothing of what the operation gave.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from ..graph.nodes import keeps_tensors, leaf_tensor
from ..graph.saved import Saved, read_saved
from ..graph.signatures import tensor_arguments
from ..graph.summary import json_number, plain_values
from ..graph.tensors import version_of
from ..graph.words import described
from ..wire import Values
from .annotate import MOST_INFERRED, Annotated
from .records import MOST_COPIED
from .used import Used, used_leaves

_MOST_CONSUMERS = 100  # that are asked for what they saved of one tensor
_RESULTS = ("result", "output")  # what torch calls an operation's own output among the saved
_ADDED_TO = {"AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0"}  # for +=, -=, *=, /=

ITSELF = "The tensor itself, as it is now."
_COPIED = "Copied by watch() when the operation ran."


@dataclass(frozen=True)
class Known:
    """What is known of the value of a node.

    Attributes:
        value: The tensor, which nobody may change; of `watch`, a copy as ``tolist()`` gives it.
        origin: A sentence: where it comes from.
    """

    value: Any
    origin: str


def value_of(captured: Annotated, node: int) -> Known | None:
    """What the forward pass gave at a node, of any size.

    Args:
        captured: The graph.
        node: The id of an autograd node of it.

    Returns:
        The tensor or its numbers; None where several tensors came out, and where none is known to
        be still what it was. Of a leaf the tensor: `gradwalk.forward.used` tells whether it is.

    Example::

        >>> from gradwalk.forward.annotate import annotate
        >>> from gradwalk.graph.capture import capture_nodes
        >>> from gradwalk.graph.names import Names
        >>> from gradwalk.graph.outputs import read_outputs
        >>> w = torch.tensor(3.0, requires_grad=True)
        >>> y = w * 2
        >>> captured = capture_nodes(read_outputs((y,), "capture"), Names())
        >>> captured = annotate(captured, Names(), infer=False)
        >>> value_of(captured, 0)
        Known(value=tensor(6., grad_fn=<MulBackward0>), origin='The tensor itself, as it is now.')
        >>> with torch.no_grad():
        ...     _ = y.mul_(100)  # y is not what the multiplication gave any more
        >>> value_of(captured, 0) is None
        True
    """
    leaf = leaf_tensor(captured.nodes[node])
    if leaf is not None:
        return Known(leaf, ITSELF)
    if len(captured.graph.nodes[node]["outputs"]) != 1:
        return None
    return _copied(captured, node) or _held(captured, node) or _saved(captured, node)


@dataclass(frozen=True)
class Drawn:
    """The values that are drawn at nodes.

    Attributes:
        values: Node id -> a number, or nested lists of them, as plain JSON values; without the
            nodes whose value is not known.
        changed: The small leaves that were changed in place since operations took them, so that
            they are among the values only as `watch` copied them: True. And those of which that is
            not known, so that the value is what they held when this was made: None.
        versions: How often each leaf had been changed in place by then.
        had_run: Whether a backward may have run by then.
    """

    values: dict[int, Values]
    changed: dict[int, bool | None]
    versions: dict[int, int]
    had_run: bool


def drawn_values(captured: Annotated, freed: bool) -> Drawn:
    """The values of all nodes that have at most 16 numbers, to be drawn.

    Args:
        captured: The graph. What its nodes saved is read when it has at most 2,000.
        freed: Whether a backward has freed something of it.

    Returns:
        The values, and which leaves are not what they were.
    """
    attributes = captured.attributes
    small = {
        node: shape
        for node, data in attributes.items()
        if (shape := data["shape"]) is not None and math.prod(shape) <= MOST_COPIED
    }
    found: dict[int, Values] = {}
    are_read = len(attributes) <= MOST_INFERRED
    leaves = dict(captured.leaves())
    had_run = freed or any(map(_has_grad, leaves.values()))
    used = used_leaves(captured, [node for node in leaves if node in small], had_run, are_read)
    changed = _from_leaves(used, leaves, found)
    for node in small:
        if node not in leaves and len(attributes[node]["outputs"]) == 1:
            known = _copied(captured, node) or _held(captured, node)
            if known is not None:
                _put(found, node, known.value)
    if are_read:
        for node, behind in enumerate(captured.nodes):
            if keeps_tensors(type(behind)):
                _from_saved(captured, node, small, found)
    for node, extra in enumerate(captured.extras, captured.first_extra):
        if extra.constant is not None and extra.constant.values is not None:
            found[node] = _plain(extra.constant.values)
    return Drawn(found, changed, {node: _version(leaf) for node, leaf in leaves.items()}, had_run)


def _from_leaves(
    of: dict[int, Used], leaves: dict[int, torch.Tensor], found: dict[int, Values]
) -> dict[int, bool | None]:
    """Add what operations took of some leaves; gives `Drawn.changed`."""
    changed: dict[int, bool | None] = {}
    for node, used in of.items():
        is_copied = used.value is not None
        if is_copied or not used.changed:
            _put(found, node, used.value if is_copied else leaves[node])
        if used.changed is not False and not is_copied:
            changed[node] = used.changed
    return changed


def _has_grad(leaf: torch.Tensor) -> bool:
    with contextlib.suppress(Exception):  # a subclass may refuse any question
        return leaf.grad is not None
    return False


def _version(leaf: torch.Tensor) -> int:
    with contextlib.suppress(Exception):  # a subclass may refuse any question
        return version_of(leaf)
    return 0


def _put(found: dict[int, Values], node: int, value: Any) -> None:
    values = plain_values(value) if isinstance(value, torch.Tensor) else _plain(value)
    if values is not None:
        found[node] = values


def _plain(values: Any) -> Values:
    """Numbers as ``tolist()`` gives them, as JSON can carry them."""
    if isinstance(values, list):
        return [
            each if type(each) is float and math.isfinite(each) else _plain(each) for each in values
        ]
    if isinstance(values, complex):
        return f"{values.real:.6g}{values.imag:+.6g}j"
    return values if isinstance(values, bool) else json_number(values)


def _copied(captured: Annotated, node: int) -> Known | None:
    """What `watch` copied of the output."""
    seen = captured.annotations.get(node)
    return None if seen is None or seen.value is None else Known(seen.value, _COPIED)


def _held(captured: Annotated, node: int) -> Known | None:
    """The output itself, where the program holds it and has not changed it."""
    reference = captured.tensors.get((node, 0))
    tensor = reference() if reference is not None else None
    if tensor is None:
        return None
    with contextlib.suppress(Exception):  # a subclass may refuse any question
        is_it = tensor.grad_fn is captured.nodes[node] and _fits(captured, node, tensor)
        if is_it and _is_unchanged(captured, node, tensor):
            return Known(tensor, ITSELF)
    return None


def _fits(captured: Annotated, node: int, tensor: torch.Tensor) -> bool:
    """Whether a tensor can be what its node gave: ``.data = ...`` may have put another there."""
    data = captured.graph.nodes[node]
    shape = None if tensor.is_nested else tuple(tensor.shape)
    known: bool = data["shape"] is None or data["shape"] == shape
    return known and (data["dtype"], data["device"]) == (str(tensor.dtype), str(tensor.device))


def _is_unchanged(captured: Annotated, node: int, tensor: torch.Tensor) -> bool:
    """Whether a tensor still holds what its node gave.

    Its version counts every change in place; those that autograd saw gave it a new node. So an
    output with a version is believed only when it can have come by it as in ``total += loss``.
    """
    version = version_of(tensor)
    if version == 0:
        return True
    if (node, 0) not in captured.graph.graph["roots"]:
        return False
    at: int | None = node
    for _ in range(version):
        if at is None or captured.graph.nodes[at]["op"] not in _ADDED_TO:
            return False
        edges = captured.graph.out_edges(at, data="argument")
        at = next((target for _, target, argument in edges if argument == "self"), None)
    # torch lets nobody change a leaf that needs grad in this way.
    return at is None or captured.graph.nodes[at]["kind"] != "leaf"


def _saved(captured: Annotated, node: int) -> Known | None:
    """The output as the node itself or one that takes it has saved it for backward."""
    graph = captured.graph
    shape, dtype = graph.nodes[node]["shape"], graph.nodes[node]["dtype"]

    def fits(saved: Saved) -> bool:
        return _is_as_saved(saved, shape, dtype)

    for saved in _own_results(captured, node):
        if fits(saved):
            return Known(saved.value, f"Saved by this node for backward, as {saved.name}.")
    for consumer in islice(captured.predecessors[node], _MOST_CONSUMERS):
        arguments = {edge["argument"] for edge in graph.get_edge_data(consumer, node).values()}
        for saved in read_saved(captured.nodes[consumer], _of_lists(arguments)):
            if saved.name in arguments and fits(saved) and _is_given(captured, node, saved.value):
                by = described(graph, consumer)
                return Known(saved.value, f"Saved by {by} for its backward, as {saved.name}.")
    return None


def _of_lists(arguments: Iterable[str | None]) -> set[str]:
    """The names of arguments, those in a list ("tensors[1]") by the list's ("tensors")."""
    return {name.partition("[")[0] for name in arguments if name is not None}


def _own_results(captured: Annotated, node: int) -> Iterator[Saved]:
    """What a node saved of its own output."""
    # In the graph of a backward, "result" is what the forward operation gave: an argument.
    op = captured.graph.nodes[node]["op"]
    names = [name for name in _RESULTS if name not in tensor_arguments(op)]
    return (saved for saved in read_saved(captured.nodes[node], names) if saved.name in names)


def _is_as_saved(saved: Saved, shape: Sequence[int] | None, dtype: str | None) -> bool:
    """Whether a saved tensor is there, unchanged, and can be the output of such a node."""
    value = saved.value
    return (
        isinstance(value, torch.Tensor)
        and saved.note is None
        and not value.is_nested
        and shape is not None
        and tuple(value.shape) == tuple(shape)
        and str(value.dtype) == dtype
    )


def _is_given(captured: Annotated, node: int, taken: torch.Tensor) -> bool:
    """Whether what an operation took is what the node gave, with no change in place in between.

    A tensor that has been changed as often as its graph tells of writes into it is.
    """
    at: int | None = node
    for _ in range(version_of(taken)):
        if at is None or captured.attributes[at]["op"] != "CopySlices":
            return False
        at = next(iter(captured.successors[at]), None)
    return True


def _from_saved(
    captured: Annotated, node: int, small: dict[int, Any], found: dict[int, Values]
) -> None:
    """Add the small values that a node has saved: its own, and those that went in.

    Args:
        captured: The graph.
        node: The id of an operation of it.
        small: The shapes of the nodes that have a small value.
        found: Gets the values.
    """
    nodes = captured.attributes
    taken = {
        edge["argument"]: target
        for target, between in captured.successors[node].items()
        if target in small and target not in found and nodes[target]["kind"] != "leaf"
        for edge in between.values()
    }
    if not taken and (node not in small or node in found):
        return
    results = set(_RESULTS) - tensor_arguments(nodes[node]["op"])
    for saved in read_saved(captured.nodes[node], results | _of_lists(taken)):
        target = node if saved.name in results else taken.get(saved.name)
        if target is None or target not in small:
            continue
        data = nodes[target]
        if target in found or len(data["outputs"]) != 1:
            continue
        fits = _is_as_saved(saved, data["shape"], data["dtype"])
        if fits and (target == node or _is_given(captured, target, saved.value)):
            _put(found, target, saved.value)
