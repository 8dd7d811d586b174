"""What stands for a tensor in the graph of a loss that it is not part of: an alias, or a copy."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ..forward.annotations import unseen_behind
from ..forward.cuts import Unseen
from ..graph.nodes import leaf_tensor
from ..graph.reading import PART, is_plain, overlap
from ..graph.words import described
from .loss_graph import LossGraph

_MOST_COMPARED = 2**24  # numbers of a leaf
_CLOSE = 0.5  # tensors that have nothing to do with each other are about 1.4 apart
_CLOSE_OF_FEW = 0.05  # a handful of numbers may be closer than that by chance
_FEW = 16
_ALIKE = 1e-9  # of the squares: rounding


def taken_alias(graph: LossGraph, tensor: torch.Tensor) -> Unseen | None:
    """What shares the memory of a tensor, needs no grad, and was taken on the way to the loss.

    Args:
        graph: The graph behind the loss.
        tensor: The tensor.
    """
    for each in _unseen(graph):
        alias = each.tensor()
        if alias is not None and alias is not tensor and overlap(alias, tensor):
            return each
    return None


def _unseen(graph: LossGraph) -> Iterator[Unseen]:
    """What the loss was computed from that needs no grad and was not seen made."""
    for tensor in graph.without_grad:
        yield from unseen_behind(tensor)
    if graph.captured is None:
        return
    for annotation in graph.captured.annotations.values():
        for constant in annotation.constants:
            if constant.origin is not None:
                yield from constant.origin.unseen
            elif constant.tensor is not None:
                yield Unseen(constant.tensor, annotation.source)
    for leaf in map(leaf_tensor, graph.captured.nodes):
        yield from unseen_behind(leaf)


def about_copy(graph: LossGraph, tensor: torch.Tensor, within: str) -> str:
    """What is known of a leaf of the graph that may be a copy of a tensor outside of it.

    Args:
        graph: The graph behind the loss.
        tensor: The tensor.
        within: What to call it.

    Returns:
        A sentence after a space; empty where there is no such leaf.
    """
    if graph.captured is None:
        return ""
    alike = graph.leaves_like(tensor)
    words = graph.captured.graph
    for node, leaf in alike:
        if overlap(leaf, tensor):
            return (
                f" {described(words, node)} of this graph is another tensor in the memory of "
                f"{within}, as Parameter(), .data or detach() make it: that one gets the gradient, "
                f"in a .grad of its own; use {within} itself."
            )
    near = [(apart, node) for node, leaf in alike if (apart := _apart(leaf, tensor)) is not None]
    close = _CLOSE if tensor.numel() >= _FEW else _CLOSE_OF_FEW
    apart, node = min(near, default=(close, 0))
    if apart >= close:
        return ""
    if apart == 0:
        return (
            f" {described(words, node)} of this graph holds the same numbers: if it is a copy of "
            f"{within} (as by deepcopy(), clone() or functional_call), the copy gets the gradient."
        )
    return (
        f" {described(words, node)} of this graph holds nearly the same numbers (the norm of the "
        f"difference is {apart:.2g} times that of their spread): likely one was made from the "
        "other, as by deepcopy(), load_state_dict(), Parameter() or .data, and changed since; then "
        f"that copy gets the gradient in the place of {within}."
    )


def _apart(leaf: torch.Tensor, tensor: torch.Tensor) -> float | None:
    """How far the numbers of a tensor are from those of another, beside their own spread.

    None where that tells nothing: those that are all alike, as ones and zeros of a start, do not.
    """
    count = tensor.numel()
    if not 1 < count <= _MOST_COMPARED:
        return None
    try:
        if not (is_plain(leaf) and is_plain(tensor)) or tensor.is_complex():
            return None
        rows = max(1, PART * len(tensor) // count)
        total = squares = moved = 0.0
        for start in range(0, len(tensor), rows):
            few = slice(start, start + rows)
            one, two = leaf.detach()[few].double(), tensor.detach()[few].double()
            total += float(two.sum())
            squares += float(two.square().sum())
            moved += float((one - two).square().sum())
        spread = squares - total**2 / count
        return math.sqrt(moved / spread) if spread > _ALIKE * squares else None
    except Exception:  # a tensor of any class may refuse
        return None
