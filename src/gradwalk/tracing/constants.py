"""The operands of a captured graph that need no grad: those that `watch` saw, and inferred ones."""

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
        constant: What is known of the operand.
        inferred: Whether that was inferred from what the node saved, rather than watched.
    """

    node: int
    constant: Constant
    inferred: bool


def operands_seen(annotations: dict[int, Annotation]) -> Iterator[Operand]:
    """The operands that need no grad, of the nodes that were watched."""
    for node, annotation in annotations.items():
        for constant in annotation.constants:
            yield Operand(node, constant, inferred=False)


def operands_inferred(
    captured: Capture, names: Names, annotations: dict[int, Annotation]
) -> Iterator[Operand]:
    """The operands that need no grad, of nodes that nobody watched, as far as they saved them.

    Args:
        captured: The graph.
        names: What the user calls the tensors. Any of them that needs grad may turn out to be what
            an operand is an alias of.
        annotations: The nodes that were watched; what was seen is not inferred again.

    Yields:
        The saved tensors that stand for an argument of the forward call and need no grad. One that
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
    """What `node_class` calls a class whose nodes may save tensors that go into the call."""
    op = node_class(cls).op
    return op if tensor_arguments(op) & saved_tensors(cls) else None


def _is_same(saved: Saved, input_nr: int | None, seen: Constant) -> bool:
    """Whether what a node saved is an operand that was seen going in."""
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
    # Most have a memory of their own: then no leaf is looked at. It is asked first, because torch
    # counts Python's object of a memory, too, which reading makes.
    if storage is not None and storage_uses(storage) > 1:
        leaf = leaves().get(storage)
    values = None
    try:
        # What was changed in place since is not what the operation took.
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
    """The leaves that need grad, those of the graph before others of the user, by their memory."""
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
