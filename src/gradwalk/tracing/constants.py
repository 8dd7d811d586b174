"""List the operands of a graph that need no grad: watched and inferred ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from ..graph.attributes import as_text
from ..graph.capture import Capture
from ..graph.names import Names
from ..torch_api.nodes import node_class, saved_tensors
from ..torch_api.reading import has_data, storage_of, storage_uses, why_unreadable
from ..torch_api.saved_tensors import Saved, read_saved
from ..torch_api.signatures import arguments_without_grad, tensor_arguments
from .annotations import Annotation
from .cuts import Constant, Origin, alias_of
from .module_path import TensorRef
from .records import MOST_COPIED


class Operand(NamedTuple):
    """An operand of one node that needs no grad.

    Attributes:
        node: The node's id.
        constant: The operand.
        inferred: Whether it was inferred from a saved tensor rather than watched.
    """

    node: int
    constant: Constant
    inferred: bool


def watched_operands(annotations: dict[int, Annotation]) -> Iterator[Operand]:
    """Yield the watched operands that need no grad."""
    for node, annotation in annotations.items():
        for constant in annotation.constants:
            yield Operand(node, constant, inferred=False)


def inferred_operands(
    captured: Capture, names: Names, annotations: dict[int, Annotation]
) -> Iterator[Operand]:
    """Yield operands of unwatched nodes that need no grad, as far as the nodes saved them.

    Args:
        captured: The graph.
        names: The names of the tensors. An operand may be an alias of any that needs grad.
        annotations: The watched nodes; watched operands are not inferred again.

    Yields:
        The saved tensors that are an argument of the forward call and need no grad. One that
        shares its memory with a leaf has a cut of the kind `ALIAS`.
    """
    leaves = functools.cache(lambda: _leaves_by_storage(captured, names))
    for i, node in enumerate(captured.nodes):
        op = _op_that_keeps_operands(type(node))
        if op is None:
            continue
        seen = annotations[i].constants if i in annotations else ()
        needing = tuple([child is not None for child, _ in node.next_functions])
        free, numbers = arguments_without_grad(op, needing)
        for saved in read_saved(node, free) if free else ():
            if not isinstance(saved.value, torch.Tensor) or saved.value.requires_grad:
                continue
            nr = numbers.get(saved.name)
            if not any(_is_same(saved, nr, other) for other in seen):
                yield Operand(i, _inferred(saved, nr, leaves), inferred=True)


@functools.cache
def _op_that_keeps_operands(cls: type) -> str | None:
    """Return the op of a node class that may save operands of its call; None for others."""
    op = node_class(cls).op
    return op if tensor_arguments(op) & saved_tensors(cls) else None


def _is_same(saved: Saved, input_nr: int | None, seen: Constant) -> bool:
    """Return whether a saved tensor is the operand that `watch` saw."""
    if seen.tensor is not None and seen.tensor() is saved.value:
        return True
    if input_nr is not None and seen.input_nr is not None:
        return input_nr == seen.input_nr
    return saved.name == seen.argument


def _inferred(
    saved: Saved, input_nr: int | None, leaves: Callable[[], dict[int, torch.Tensor]]
) -> Constant:
    tensor: torch.Tensor = saved.value
    storage, leaf = storage_of(tensor), None
    # Most have their own memory, so no leaf is searched. Ask first: torch also counts the Python
    # object of a storage, which reading creates.
    if storage is not None and storage_uses(storage) > 1:
        leaf = leaves().get(storage)
    values = None
    try:
        # A tensor changed in place since is not what the operation took.
        small = has_data(tensor) and tensor.numel() <= MOST_COPIED and tensor.is_cpu
        if small and not saved.changed and why_unreadable(tensor) is None:
            values = tensor.tolist()
    except Exception:  # some layouts and subclasses cannot be listed
        values = None
    return Constant(
        position=saved.name,
        shape=() if tensor.is_nested else tuple(tensor.shape),
        dtype=as_text(tensor.dtype),
        values=values,
        tensor=TensorRef(tensor),
        origin=_UNSEEN
        if leaf is None
        else Origin(None, (alias_of(leaf),), direct=leaf.numel() == tensor.numel()),
        argument=saved.name,
        input_nr=input_nr,
    )


_UNSEEN = Origin(None, ())


def _leaves_by_storage(captured: Capture, names: Names) -> dict[int, torch.Tensor]:
    """Return leaves that need grad by their storage; leaves of the graph come first."""
    tensors = {id(leaf): leaf for _, leaf in captured.leaves()}
    for key, (_, reference) in names.known.items():
        other = None if key in tensors else reference()
        if other is not None:
            tensors[key] = other
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors.values():
        if tensor.requires_grad:
            storage = storage_of(tensor)
            if storage is not None:
                found.setdefault(storage, tensor)
    return found
