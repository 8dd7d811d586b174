"""Find an alias or a copy that a graph holds in place of a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ..graph.labels import described
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import PART, is_plain, overlap
from ..tracing.annotations import unrecorded_sources
from ..tracing.cuts import UnrecordedSource
from .loss_graph import LossGraph

_MOST_COMPARED = 2**24  # numbers of a leaf
_CLOSE = 0.5  # tensors that have nothing to do with each other are about 1.4 apart
_CLOSE_OF_FEW = 0.05  # a handful of numbers may be closer than that by chance
_FEW = 16
_ALIKE = 1e-9  # of the squares: rounding


def taken_alias(graph: LossGraph, tensor: torch.Tensor) -> UnrecordedSource | None:
    """Find a tensor of the forward pass that shares memory with one, but needs no grad.

    Args:
        graph: The graph behind the loss.
        tensor: The tensor.
    """
    for each in _unseen(graph):
        alias = each.tensor()
        if alias is not None and alias is not tensor and overlap(alias, tensor):
            return each
    return None


def _unseen(graph: LossGraph) -> Iterator[UnrecordedSource]:
    """Yield the inputs of the loss that need no grad and that `watch` did not see made."""
    for tensor in graph.without_grad:
        yield from unrecorded_sources(tensor)
    if graph.captured is None:
        return
    for annotation in graph.captured.annotations.values():
        for constant in annotation.constants:
            if constant.origin is not None:
                yield from constant.origin.unrecorded
            elif constant.tensor is not None:
                yield UnrecordedSource(constant.tensor, annotation.source)
    for leaf in map(leaf_tensor, graph.captured.nodes):
        yield from unrecorded_sources(leaf)


def about_copy(graph: LossGraph, tensor: torch.Tensor, within: str) -> str:
    """Describe a leaf of the graph that may be a copy of a tensor outside it.

    Args:
        graph: The graph behind the loss.
        tensor: The tensor.
        within: Its name.

    Returns:
        A sentence after a space; empty if no leaf fits.
    """
    if graph.captured is None:
        return ""
    alike = graph.leaves_like(tensor)
    words = graph.captured.graph
    for node, leaf in alike:
        if overlap(leaf, tensor):
            return (
                f" {described(words, node)} of this graph is another tensor in the memory of "
                f"{within}, as Parameter(), .data or detach() make it. It gets the gradient, "
                f"in its own .grad. Use {within} itself."
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
        f"difference is {apart:.2g} times that of their spread). It is likely a copy, as by "
        "deepcopy(), load_state_dict(), Parameter() or .data, that was changed since. Then the "
        f"copy gets the gradient instead of {within}."
    )


def _apart(leaf: torch.Tensor, tensor: torch.Tensor) -> float | None:
    """Return the distance of two tensors relative to their spread.

    None if it says nothing, as for constant tensors.
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
