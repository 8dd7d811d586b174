"""The operands of a captured graph that need no grad: those that `watch` saw, and inferred ones."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.autograd.graph import Node

from ..graph.capture import Capture
from ..graph.names import Names
from ..graph.nodes import leaf_tensor, node_class, saved_tensors
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
    leaves = _leaves_by_storage(captured, names)
    for i, node in enumerate(captured.nodes):
        if not _operands_kept(type(node)):
            continue
        seen = annotations[i].constants if i in annotations else ()
        places = captured.graph.nodes[i]["no_grad_inputs"]
        for saved in _saved_operands(node):
            nr = next((p["input_nr"] for p in places if p["argument"] == saved.name), None)
            if not any(_is_same(saved, nr, other) for other in seen):
                yield Operand(i, _inferred(saved, nr, leaves), inferred=True)


@functools.cache
def _operands_kept(cls: type) -> frozenset[str]:
    """What nodes of a class may save of the tensors that go into the call."""
    return tensor_arguments(node_class(cls).op) & saved_tensors(cls)


def _saved_operands(node: Node) -> Iterator[Saved]:
    """What a node saved of the tensors that went into its call and need no grad."""
    for saved in read_saved(node, _operands_kept(type(node))):
        if isinstance(saved.value, torch.Tensor) and not saved.value.requires_grad:
            yield saved


def _is_same(saved: Saved, input_nr: int | None, seen: Constant) -> bool:
    """Whether what a node saved is an operand that was seen going in."""
    if seen.tensor is not None and seen.tensor() is saved.value:
        return True
    if input_nr is not None and seen.input_nr is not None:
        return input_nr == seen.input_nr
    return saved.name == seen.argument


def _inferred(saved: Saved, input_nr: int | None, leaves: dict[int, torch.Tensor]) -> Constant:
    tensor: torch.Tensor = saved.value
    values = None
    with contextlib.suppress(Exception):  # some layouts and subclasses cannot be listed
        # What was changed in place since is not what the operation took.
        small = tensor.device.type == "cpu" and tensor.numel() <= MOST_COPIED and not saved.changed
        if small and why_unreadable(tensor) is None:
            values = tensor.tolist()
    storage = storage_of(tensor)
    leaf = leaves.get(storage) if storage is not None else None
    cuts: tuple[Cut, ...] = () if leaf is None else (alias_of(leaf),)
    return Constant(
        position=saved.name,
        shape=() if tensor.is_nested else tuple(tensor.shape),
        dtype=str(tensor.dtype),
        values=values,
        tensor=TensorRef(tensor),
        origin=Origin(None, cuts, direct=leaf is not None and leaf.numel() == tensor.numel()),
        argument=saved.name,
        input_nr=input_nr,
    )


def _leaves_by_storage(captured: Capture, names: Names) -> dict[int, torch.Tensor]:
    """The leaves that need grad, those of the graph before others of the user, by their memory."""
    leaves = [leaf for node in captured.nodes if (leaf := leaf_tensor(node)) is not None]
    others = [ref() for _, ref in names.known.values()]
    found: dict[int, torch.Tensor] = {}
    for tensor in (*leaves, *others):
        if tensor is not None and tensor.requires_grad:
            storage = storage_of(tensor)
            if storage is not None:
                found.setdefault(storage, tensor)
    return found
