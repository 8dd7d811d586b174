"""Find the forward value of each node, as far as it is still known.

A tensor that was changed in place since is not shown as its node's value.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.attributes import as_text, described_outputs
from ..graph.labels import described
from ..schema.values import Values
from ..torch_api.json_values import json_number, plain_values
from ..torch_api.nodes import (
    AccumulateGrad,
    arguments_of,
    keeps_tensors,
    leaf_tensor,
    op_name,
    outputs_metadata,
)
from ..torch_api.saved_tensors import Saved, read_saved
from ..torch_api.signatures import tensor_arguments
from ..torch_api.tensors import version_of
from .annotate import MOST_INFERRED, Annotated
from .leaf_values import Used, used_leaves
from .records import MOST_COPIED

_MOST_CONSUMERS = 100  # of one tensor whose saved tensors are read
_RESULTS = ("result", "output")  # torch's names for an operation's own saved output
_ADDED_TO = {"AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0"}  # for +=, -=, *=, /=

ITSELF = "The tensor itself, as it is now."
_COPIED = "Copied by watch() when the operation ran."


@dataclass(frozen=True)
class Known:
    """A node's value.

    Attributes:
        value: The tensor, not to be changed; for `watch`, a copy as ``tolist()`` gives it.
        origin: A sentence: where it comes from.
    """

    value: Any
    origin: str


def value_of(captured: Annotated, node: int) -> Known | None:
    """Return a node's forward value, of any size.

    Args:
        captured: The graph.
        node: The id of an autograd node.

    Returns:
        The tensor or its numbers; None if there are several outputs, or if the value may have
        changed. A leaf always gives its tensor: see `gradwalk.tracing.leaf_values` for changes.

    Example::

        >>> from gradwalk.tracing.annotate import annotate
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
        ...     _ = y.mul_(100)  # y no longer holds the product
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
        values: Node id -> a number or nested lists, as JSON values; unknown values are left out.
        changed: Small leaves that may have changed in place since operations used them. True:
            changed, and drawn only if `watch` copied the value. None: unknown, and drawn as it was
            when this was made.
        versions: The in-place version of each leaf at that time.
        had_run: Whether a backward may have run before.
    """

    values: dict[int, Values]
    changed: dict[int, bool | None]
    versions: dict[int, int]
    had_run: bool


def drawn_values(captured: Annotated, freed: bool) -> Drawn:
    """Return the values of all nodes with at most 16 numbers.

    Args:
        captured: The graph. Saved tensors are read only if it has at most 2,000 nodes.
        freed: Whether a backward has freed part of it.

    Returns:
        The values, and the leaves that changed.
    """
    found: dict[int, Values] = {}
    are_read = len(captured.nodes) <= MOST_INFERRED
    leaves = dict(captured.leaves())
    had_run = freed or any(map(_has_grad, leaves.values()))
    small = [node for node, taken in captured.taken.items() if taken and _is_small(taken[0])]
    used = used_leaves(captured, small, had_run, are_read)
    changed = _from_leaves(used, leaves, found)
    for node in _seen_or_held(captured):
        if node not in leaves and _gave_few(captured.nodes[node]):
            known = _copied(captured, node) or _held(captured, node)
            if known is not None:
                _put(found, node, known.value)
    if are_read:
        _from_saved(captured, found)
    for node, extra in enumerate(captured.extras, captured.first_extra):
        if extra.constant is not None and extra.constant.values is not None:
            found[node] = _plain(extra.constant.values)
    return Drawn(found, changed, {node: _version(leaf) for node, leaf in leaves.items()}, had_run)


def _is_small(shape: Iterable[int] | None) -> bool:
    count = 1
    for size in (MOST_COPIED + 1,) if shape is None else shape:
        if type(size) is not int:  # a symbol, as in jagged or traced tensors
            return False
        count *= size
    return count <= MOST_COPIED


def _seen_or_held(captured: Annotated) -> list[int]:
    """Return the nodes whose output `watch` may have copied or the program still holds."""
    seen = {node for node, each in captured.annotations.items() if each.value is not None}
    return sorted(seen.union(node for node, _ in captured.tensors))


def _gave_few(node: Node) -> bool:
    """Return whether a node gave one small tensor."""
    try:
        (only,) = outputs_metadata(node)
        return _is_small(only.shape)
    except Exception:  # several outputs, or a nested tensor, which has no single shape
        return False


def _only_output(captured: Annotated, node: int) -> Mapping[str, Any] | None:
    """Return the shape, dtype and device of a node's output; None if it has several."""
    outputs = described_outputs(captured.nodes[node])
    return outputs[0] if len(outputs) == 1 else None


def _from_leaves(
    of: dict[int, Used], leaves: dict[int, torch.Tensor], found: dict[int, Values]
) -> dict[int, bool | None]:
    """Add the values that operations used of some leaves; return `Drawn.changed`."""
    changed: dict[int, bool | None] = {}
    for node, used in of.items():
        is_copied = used.value is not None
        if is_copied or not used.changed:
            _put(found, node, used.value if is_copied else leaves[node])
        if used.changed is not False and not is_copied:
            changed[node] = used.changed
    return changed


def _has_grad(leaf: torch.Tensor) -> bool:
    try:
        return leaf.grad is not None
    except Exception:  # a subclass may refuse any question
        return False


def _version(leaf: torch.Tensor) -> int:
    try:
        return version_of(leaf)
    except Exception:  # a subclass may refuse any question
        return 0


def _put(found: dict[int, Values], node: int, value: Any) -> None:
    values = plain_values(value) if isinstance(value, torch.Tensor) else _plain(value)
    if values is not None:
        found[node] = values


def _plain(values: Any) -> Values:
    """Convert ``tolist()`` values for JSON."""
    if type(values) is float and math.isfinite(values):
        return values
    if isinstance(values, list):
        return [
            each if type(each) is float and math.isfinite(each) else _plain(each) for each in values
        ]
    if isinstance(values, complex):
        return f"{values.real:.6g}{values.imag:+.6g}j"
    return values if isinstance(values, bool) else json_number(values)


def _copied(captured: Annotated, node: int) -> Known | None:
    """Return the output that `watch` copied."""
    seen = captured.annotations.get(node)
    return None if seen is None or seen.value is None else Known(seen.value, _COPIED)


def _held(captured: Annotated, node: int) -> Known | None:
    """Return the output itself, if the program holds it unchanged."""
    reference = captured.tensors.get((node, 0))
    tensor = reference() if reference is not None else None
    if tensor is None:
        return None
    with contextlib.suppress(Exception):  # a subclass may refuse any question
        output = _only_output(captured, node)
        is_it = tensor.grad_fn is captured.nodes[node] and output and _fits(output, tensor)
        if is_it and _is_unchanged(captured, node, tensor):
            return Known(tensor, ITSELF)
    return None


def _fits(output: Mapping[str, Any], tensor: torch.Tensor) -> bool:
    """Return whether a tensor may be a node's output: ``.data = ...`` may have replaced it."""
    shape = None if tensor.is_nested else tuple(tensor.shape)
    known: bool = output["shape"] is None or output["shape"] == shape
    return known and (output["dtype"], output["device"]) == (
        as_text(tensor.dtype),
        as_text(tensor.device),
    )


def _is_unchanged(captured: Annotated, node: int, tensor: torch.Tensor) -> bool:
    """Return whether a tensor still holds its node's output.

    Its version counts every in-place change; recorded changes gave it a new node. So an output
    with a version is trusted only if ``+=`` and the like explain it, as in ``total += loss``.
    """
    version = version_of(tensor)
    if version == 0:
        return True
    if (node, 0) not in captured.roots:
        return False
    at: int | None = node
    for _ in range(version):
        if at is None or captured.graph.nodes[at]["op"] not in _ADDED_TO:
            return False
        edges = captured.graph.out_edges(at, data="argument")
        at = next((target for _, target, argument in edges if argument == "self"), None)
    # torch forbids such changes of a leaf that needs grad.
    return at is None or captured.graph.nodes[at]["kind"] != "leaf"


def _saved(captured: Annotated, node: int) -> Known | None:
    """Return the output that the node itself or a consumer saved for backward."""
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
    """Return the names of arguments; a list's items ("tensors[1]") give its name ("tensors")."""
    return {name.partition("[")[0] for name in arguments if name is not None}


def _own_results(captured: Annotated, node: int) -> Iterator[Saved]:
    """Yield a node's own output among its saved tensors."""
    # In the graph of a backward, "result" is an argument: the forward operation's output.
    op = captured.graph.nodes[node]["op"]
    names = [name for name in _RESULTS if name not in tensor_arguments(op)]
    return (saved for saved in read_saved(captured.nodes[node], names) if saved.name in names)


def _is_as_saved(saved: Saved, shape: Sequence[int] | None, dtype: str | None) -> bool:
    """Return whether a saved tensor is unchanged and matches a node's shape and dtype."""
    value = saved.value
    return (
        isinstance(value, torch.Tensor)
        and saved.note is None
        and not value.is_nested
        and shape is not None
        and tuple(value.shape) == tuple(shape)
        and as_text(value.dtype) == dtype
    )


def _is_given(captured: Annotated, node: int, taken: torch.Tensor) -> bool:
    """Return whether an operation used a node's output without an in-place change in between.

    The graph must show as many writes as the tensor's version counts.
    """
    at: int | None = node
    for _ in range(version_of(taken)):
        if at is None or op_name(captured.nodes[at]) != "CopySlices":
            return False
        at = next(iter(captured.successors[at]), None)
    return True


def _from_saved(captured: Annotated, found: dict[int, Values]) -> None:
    """Add the small values that nodes have saved: outputs and operands.

    Args:
        captured: The graph.
        found: Gets the values; known ones are not read again.
    """
    nodes = captured.nodes
    missing: dict[Node | None, int] = {
        behind: node
        for node, behind in enumerate(nodes)
        if type(behind) is not AccumulateGrad and node not in found and _gave_few(behind)
    }
    for node, behind in enumerate(nodes) if missing else ():
        if not keeps_tensors(type(behind)):
            continue
        following = behind.next_functions
        places = {nr: missing[to] for nr, (to, _) in enumerate(following) if to in missing}
        results = _results(op_name(behind)) if behind in missing else frozenset()
        if not places and not results:
            continue
        arguments = arguments_of(behind, following)
        taken = {arguments[nr]: target for nr, target in places.items()}
        for saved in read_saved(behind, results | _of_lists(taken)):
            target = node if saved.name in results else taken.get(saved.name)
            if target is None or target in found or not _is_few(saved):
                continue
            output = _only_output(captured, target)
            fits = output is not None and _is_as_saved(saved, output["shape"], output["dtype"])
            if fits and (target == node or _is_given(captured, target, saved.value)):
                _put(found, target, saved.value)


@functools.cache
def _results(op: str) -> frozenset[str]:
    """Return the names under which nodes of a class may save their output."""
    return frozenset(_RESULTS) - tensor_arguments(op)


def _is_few(saved: Saved) -> bool:
    value = saved.value
    is_there = isinstance(value, torch.Tensor) and saved.note is None
    return is_there and not value.is_nested and value.numel() <= MOST_COPIED
