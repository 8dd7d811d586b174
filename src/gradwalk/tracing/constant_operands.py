"""The operands of nodes that need no grad, as `watch` saw them or as a node saved them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from ..graph.capture import Capture, as_text
from ..graph.names import Names
from ..torch_api.nodes import node_class, op_name, saved_tensors
from ..torch_api.reading import has_data, shape_of, storage_of, storage_uses, why_unreadable
from ..torch_api.saved_tensors import Saved, read_saved
from ..torch_api.signatures import arguments_without_grad, tensor_arguments
from .annotations import Annotation
from .cuts import Constant, Origin, alias_of
from .module_path import TensorRef
from .records import MOST_COPIED

if TYPE_CHECKING:
    pass


MOST_INFERRED = 2_000
"""Nothing is inferred unasked in larger graphs: it would read every saved tensor."""


class ConstantOperand(NamedTuple):
    """An operand of one node that needs no grad."""

    node: int
    constant: Constant
    inferred: bool  # whether it was inferred from a saved tensor rather than watched


def watched_operands(annotations: dict[int, Annotation]) -> Iterator[ConstantOperand]:
    """Yield the watched operands that need no grad."""
    for node, annotation in annotations.items():
        for constant in annotation.constants:
            yield ConstantOperand(node, constant, inferred=False)


def inferred_operands(
    captured: Capture, names: Names, annotations: dict[int, Annotation]
) -> Iterator[ConstantOperand]:
    """Yield operands of unwatched nodes that need no grad, as far as the nodes saved them.

    They are the saved tensors that are an argument of the forward call. One that shares its memory
    with a leaf of the graph, or with one of the ``names`` that needs grad, has a cut of the kind
    `ALIAS`.
    """
    sources = functools.cache(lambda: _sources_by_storage(captured, names))
    for i, node in enumerate(captured.nodes):
        if not _keeps_operands(type(node)):
            continue
        seen = annotations[i].constants if i in annotations else ()
        needing = tuple([child is not None for child, _ in node.next_functions])
        free, numbers = arguments_without_grad(op_name(node), needing)
        for saved in read_saved(node, free) if free else ():
            if not isinstance(saved.value, torch.Tensor) or saved.value.requires_grad:
                continue
            nr = numbers.get(saved.name)
            if not any(_is_same(saved, nr, other) for other in seen):
                yield ConstantOperand(i, _inferred(saved, nr, sources), inferred=True)


@functools.cache
def _keeps_operands(cls: type) -> bool:
    """Return whether nodes of a class may save operands of their call."""
    return not tensor_arguments(node_class(cls).op).isdisjoint(saved_tensors(cls))


def _is_same(saved: Saved, arg_nr: int | None, seen: Constant) -> bool:
    """Return whether a saved tensor is the operand that `watch` saw, or a view of it."""
    given = None if seen.tensor is None else seen.tensor()
    if given is saved.value:
        return True
    memory = None if given is None else storage_of(given)
    if memory is not None and memory == storage_of(saved.value):  # a weight's transpose
        return True
    if arg_nr is not None and seen.arg_nr is not None:
        return arg_nr == seen.arg_nr
    return saved.name == seen.argument


def _inferred(
    saved: Saved, arg_nr: int | None, sources: Callable[[], dict[int, torch.Tensor]]
) -> Constant:
    tensor: torch.Tensor = saved.value
    storage, source = storage_of(tensor), None
    # Most have their own memory, so no source is searched. Ask first: torch also counts the Python
    # object of a storage, which reading creates.
    if storage is not None and storage_uses(storage) != 1:
        source = sources().get(storage)
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
        shape=shape_of(tensor),
        dtype=as_text(tensor.dtype),
        values=values,
        tensor=TensorRef(tensor),
        origin=_UNKNOWN_ORIGIN
        if source is None
        else Origin(None, (alias_of(source),), direct=source.numel() == tensor.numel()),
        argument=saved.name,
        arg_nr=arg_nr,
    )


_UNKNOWN_ORIGIN = Origin(None, ())


def _sources_by_storage(captured: Capture, names: Names) -> dict[int, torch.Tensor]:
    """Return tensors that need grad by their storage; leaves of the graph come first."""
    tensors = {id(leaf): leaf for _, leaf in captured.leaves()}
    references = [reference for _, reference in names.known.values()]
    # A Function may return its input, which then shares memory with a result that needs grad.
    references += [
        reference
        for (node, _), reference in names.tensors.items()
        if not node_class(type(node)).is_function
    ]
    for reference in references:
        other = reference()
        if other is not None:
            tensors.setdefault(id(other), other)
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors.values():
        if tensor.requires_grad and (storage := storage_of(tensor)) is not None:
            found.setdefault(storage, tensor)
    return found
