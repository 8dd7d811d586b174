"""Handle gradients that torch moves into a leaf's ``.grad`` instead of copying them.

AccumulateGrad moves a tensor that nothing else refers to, and copies others. So gradwalk refers to
another tensor of the same memory, and copies that once it is ``.grad``, which may change in place.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import Node

from ..torch_api.dtensors import PLAIN, copied, own_part
from ..torch_api.nodes import leaf_classes
from ..torch_api.reading import has_data, has_hooks_on_grad, storage_id

Gradients = Sequence[torch.Tensor | None]

LeafInputs = Mapping[int, Sequence[tuple[int, Any]]]
"""Node -> which of its outgoing gradients go into which leaves; empty for a leaf."""

Memory = tuple[int, int, torch.dtype]


def leaf_inputs(nodes: Sequence[Node]) -> LeafInputs:
    """Find the leaves, and the nodes that pass gradients on to one."""
    found: dict[int, Sequence[tuple[int, Any]]] = {}
    classes = leaf_classes(nodes)
    for i, node in enumerate(nodes):
        children = node.next_functions
        into = [
            (place, child) for place, (child, _) in enumerate(children) if type(child) in classes
        ]
        if into or type(node) in classes:
            found[i] = into
    return found


def memory_of(grad: torch.Tensor) -> Memory:
    """Return a key for a tensor's memory."""
    return grad.data_ptr(), grad.numel(), grad.dtype


def has_memory(grad: torch.Tensor) -> bool:
    """Return whether `memory_of` accepts a tensor."""
    return type(grad) in PLAIN and storage_id(grad) is not None


class StolenGrads:
    """Gradients that recently became a ``.grad``, with a copy of each."""

    def __init__(self) -> None:
        # Holding the tensor keeps its memory from being reused.
        self._copies: dict[Memory, tuple[torch.Tensor, int, torch.Tensor]] = {}

    def add(self, grad: torch.Tensor, version: int, copy: torch.Tensor) -> None:
        """Store the copy of a gradient that became a ``.grad`` in some version."""
        self._copies[memory_of(grad)] = grad, version, copy

    def copy_of(self, grad: torch.Tensor, version: int) -> torch.Tensor | None:
        """Return the copy of a gradient, or of another tensor of the same memory, if any."""
        if not self._copies or not has_memory(grad):
            return None
        stolen, known, copy = self._copies.get(memory_of(grad), (None, 0, None))
        if stolen is None or copy is None or known != version:
            return None
        if stolen.is_conj() != grad.is_conj() or stolen.is_neg() != grad.is_neg():
            return None
        if stolen.stride() != copy.stride():
            return None
        shape, stride = grad.shape, grad.stride()
        last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        return copy.as_strided(shape, stride) if 0 <= last < copy.numel() else None


class GradAliases:
    """Replaces the gradients of one pass by aliases, so that torch can move them into leaves."""

    def __init__(self, noted: deque[Any]) -> None:
        self._data = noted
        self._aliases: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def forget(self) -> None:
        """Forget the aliases."""
        self._aliases.clear()

    def alias(
        self, leaf_inputs: Sequence[tuple[int, Any]], outgoing: Gradients, incoming: Gradients
    ) -> tuple[Gradients, Gradients, list[tuple[torch.Tensor, torch.Tensor]]]:
        """Replace gradients that go into leaves; return also those recorded elsewhere."""
        held: list[tuple[torch.Tensor, torch.Tensor]] = []
        for place, leaf in leaf_inputs:
            grad = outgoing[place]
            # A post-accumulate hook may change .grad before it can be copied.
            if grad is None or not has_memory(grad) or has_hooks_on_grad(leaf.variable):
                continue
            known = self._aliases.get(id(grad)) if self._aliases else None
            alias = known[1] if known is not None and known[0]() is grad else grad.detach()
            outgoing = [alias if each is grad else each for each in outgoing]
            for each in incoming:
                if each is grad:  # the node passed it on unchanged
                    incoming = [alias if each is grad else each for each in incoming]
                    held.append((grad, alias))
                    self._replace_recorded(grad, alias)
                    break
        return outgoing, incoming, held

    def _replace_recorded(self, grad: torch.Tensor, alias: torch.Tensor) -> None:
        """Replace a gradient in all records since the node that made it."""
        self._aliases[id(grad)] = weakref.ref(grad), alias
        for i in range(len(self._data) - 1, -1, -1):
            node, outgoing, incoming, rest = self._data[i]
            if any(each is alias for each in (*outgoing, *incoming)):
                return
            is_made = not any(each is grad for each in incoming)
            if is_made and not any(each is grad for each in outgoing):
                continue
            outgoing, incoming = (
                [alias if each is grad else each for each in some] for some in (outgoing, incoming)
            )
            self._data[i] = node, outgoing, incoming, rest
            if is_made:
                return


def copy_if_stolen(leaf: Any, incoming: torch.Tensor | None) -> torch.Tensor | None:
    """Return a copy of a leaf's incoming gradient if torch made it ``.grad`` itself; else None."""
    try:
        held = leaf.variable.grad
        if incoming is None or held is None:
            return None
        one, other = incoming, held
        if (
            type(incoming) is type(held) is torch.Tensor and incoming.layout is torch.strided
        ):  # most are
            if incoming.data_ptr() != held.data_ptr():
                return None
            return copied(incoming) if incoming.requires_grad else incoming.clone()
        mine, its = own_part(incoming), own_part(held)
        one, other = incoming if mine is None else mine, held if its is None else its
        if one.layout is torch.sparse_coo:  # every sparse gradient is copied
            return None
        if one.layout is torch.strided and has_data(one) and one.data_ptr() != other.data_ptr():
            return None
        return copied(incoming)
    except Exception:  # a user's class may raise anywhere
        return None
