"""The operands of a captured graph that need no grad: those that `watch` saw, and inferred ones."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture, as_text
from ..graph.names import Names
from ..graph.nodes import arguments_of, node_class, saved_tensors
from ..graph.reading import storage_of, why_unreadable
from ..graph.saved import Saved, read_saved
from ..graph.signatures import tensor_arguments
from .annotations import Annotation
from .cuts import Constant, Cut, Origin, alias_of
from .module_path import TensorRef
from .records import MOST_COPIED


@dataclass(frozen=True)
class Operand:
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
    leaves: dict[int, torch.Tensor] | None = None
    for i, node in enumerate(captured.nodes):
        kept = _operands_kept(type(node))
        if not kept:
            continue
        places = _places(node)
        operands = _saved_operands(node, kept, places)
        if not operands:
            continue
        seen = annotations[i].constants if i in annotations else ()
        leaves = _leaves_by_storage(captured, names) if leaves is None else leaves
        for saved in operands:
            nr = places.get(saved.name)
            if not any(_is_same(saved, nr, other) for other in seen):
                yield Operand(i, _inferred(saved, nr, leaves), inferred=True)


@functools.cache
def _operands_kept(cls: type) -> frozenset[str]:
    """What nodes of a class may save of the tensors that go into the call."""
    return tensor_arguments(node_class(cls).op) & saved_tensors(cls)


def _places(node: Node) -> dict[str | None, int | None]:
    """By forward argument which input it is, of those that need no grad; None for those that do."""
    following = node.next_functions
    named = zip(arguments_of(node, following), following, strict=True)
    found: dict[str | None, int | None] = {}
    for nr, (name, (child, _)) in enumerate(named):
        found.setdefault(name, nr if child is None else None)
    return found


def _saved_operands(
    node: Node, kept: frozenset[str], places: Mapping[str | None, int | None]
) -> list[Saved]:
    """What a node saved of the tensors that went into its call and need no grad."""
    needing = {name for name, nr in places.items() if nr is None}
    return [
        saved
        for saved in read_saved(node, kept - needing)
        if isinstance(saved.value, torch.Tensor) and not saved.value.requires_grad
    ]


def _is_same(saved: Saved, input_nr: int | None, seen: Constant) -> bool:
    """Whether what a node saved is an operand that was seen going in."""
    if seen.tensor is not None and seen.tensor() is saved.value:
        return True
    if input_nr is not None and seen.input_nr is not None:
        return input_nr == seen.input_nr
    return saved.name == seen.argument


def _inferred(saved: Saved, input_nr: int | None, leaves: dict[int, torch.Tensor]) -> Constant:
    tensor: torch.Tensor = saved.value
    storage = storage_of(tensor)
    leaf = leaves.get(storage) if storage is not None else None
    cuts: tuple[Cut, ...] = () if leaf is None else (alias_of(leaf),)
    return Constant(
        position=saved.name,
        shape=() if tensor.is_nested else tuple(tensor.shape),
        dtype=as_text(tensor.dtype),
        values=_few_values(saved),
        tensor=TensorRef(tensor),
        origin=Origin(None, cuts, direct=leaf is not None and leaf.numel() == tensor.numel()),
        argument=saved.name,
        input_nr=input_nr,
    )


def _few_values(saved: Saved) -> Any:
    """The numbers of a small tensor, as ``tolist()`` gives them; None where they are not told."""
    tensor: torch.Tensor = saved.value
    try:
        # What was changed in place since is not what the operation took.
        small = tensor.numel() <= MOST_COPIED and tensor.device.type == "cpu" and not saved.changed
        return tensor.tolist() if small and why_unreadable(tensor) is None else None
    except Exception:  # some layouts and subclasses cannot be listed
        return None


def _leaves_by_storage(captured: Capture, names: Names) -> dict[int, torch.Tensor]:
    """The leaves that need grad, those of the graph before others of the user, by their memory."""
    tensors = {id(leaf): leaf for _, leaf in captured.leaves()}
    for _, reference in names.known.values():
        other = reference()
        if other is not None:
            tensors.setdefault(id(other), other)
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors.values():
        if tensor.requires_grad:
            storage = storage_of(tensor)
            if storage is not None:
                found.setdefault(storage, tensor)
    return found
