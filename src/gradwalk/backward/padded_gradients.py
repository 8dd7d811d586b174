"""Gradients that are a smaller gradient padded with zeros, as an indexing operation passes on.

They are as large as the indexed tensor. Where torch adds several of them up, only gradwalk would
keep them alive. So it keeps the smaller gradient, and pads it with torch's own operation if needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ..schema.details import TensorSummary
from ..torch_api.modes import unseen
from ..torch_api.reading import has_data, version_of
from ..torch_api.saved_tensors import plain_value
from ..torch_api.summary import MOST_VALUES, Summarise, summarise, without_values
from .kept_gradients import CHANGED, GradientStore, KeptGradient, has_norm, padded, statistics_of
from .stolen import Gradients

_PADDING: dict[str, tuple[Callable[..., torch.Tensor], dict[str, int]]] = {
    "SelectBackward0": (torch.ops.aten.select_backward, {"dim": 0, "index": 0}),
    "SliceBackward0": (
        torch.ops.aten.slice_backward,
        {"dim": 0, "start": 0, "end": 2**63 - 1, "step": 1},
    ),
}
"""Node -> its backward, and the saved numbers that it takes, with their defaults."""


def padding_nodes(nodes: Sequence[Node]) -> list[int]:
    """Return the ids of the nodes that pad their incoming gradient with zeros."""
    classes = {cls for cls in set(map(type, nodes)) if cls.__name__ in _PADDING}
    return [i for i, node in enumerate(nodes) if type(node) in classes] if classes else []


def summed_nodes(nodes: Sequence[Node], padding: Sequence[int]) -> set[int]:
    """Return the padding nodes whose gradients torch sums and then frees."""
    places = {i: nodes[i].next_functions[0] for i in padding}
    count = Counter(places.values())
    return {i for i, place in places.items() if count[place] > 1}


@dataclass(frozen=True, slots=True)
class Padding:
    """Represents a padded gradient that is not kept.

    Attributes:
        node: The node that passed it on.
        _version: Always 0: it was new when it was seen.
    """

    node: Node | None
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    nbytes: int
    _version: int = 0


def as_padding(node: Node | None, outgoing: Gradients, incoming: Gradients) -> Any:
    """Replace the outgoing gradient of a padding node by a `Padding`, if that can be remade."""
    (one,), (other,) = outgoing, incoming
    if (
        type(one) is type(other) is torch.Tensor
        and one.numel() > other.numel()
        and one.layout is other.layout is torch.strided
        and one.dtype is other.dtype
        and one.is_contiguous()
        and not (one.is_inference() or other.is_inference())  # recorded the slow way
    ):
        return (Padding(node, one.shape, one.dtype, one.device, one.nbytes),)
    return outgoing


def keep_padding(store: GradientStore, padding: Padding, middle: KeptGradient) -> KeptGradient:
    """Keep a padded gradient as the smaller one.

    The budget counts the padded size, which is needed once the values are read.
    """
    like = torch.empty((), dtype=padding.dtype, device=padding.device).expand(padding.shape)
    there, known = middle.tensor, middle.statistics
    is_free = like.numel() <= MOST_VALUES or (there is not None and not has_data(there))
    size = 0 if is_free else padding.nbytes
    if there is not None and (not size or size <= store.bytes_left):
        store.count(size)
        return Padded(middle, _making(padding), like)
    if there is not None and known is None and has_norm(there):
        if not there.numel():
            return store.without_values(like.new_zeros(()).expand(like.shape))
        known = statistics_of(there)
    if known is None and (middle.changed or middle.summary is not None):
        return KeptGradient(None, summary=_without_values(like, middle))
    statistics = None if known is None else padded(known)
    return KeptGradient(None, summary=store.only_statistics(like), statistics=statistics)


class Padded(KeptGradient):
    """A padded gradient, made and kept when its values are read."""

    __slots__ = ("_like", "_make", "_middle")

    def __init__(
        self, middle: KeptGradient, make: Callable[[torch.Tensor], torch.Tensor], like: torch.Tensor
    ) -> None:
        super().__init__(None)
        self._middle = middle
        self._make = make
        self._like = like

    @property
    def tensor(self) -> torch.Tensor | None:
        """Its values; None if the smaller gradient was changed before."""
        there = self._middle.tensor if self._flowed is None else None
        if there is not None:
            with torch.inference_mode(False), torch.no_grad(), unseen():
                made = self._make(there)
            self.version = version_of(made)
            self._flowed = made
        return super().tensor

    @property
    def changed(self) -> bool:
        """Whether it was changed in place, or the smaller gradient before it was made."""
        return self._middle.changed if self._flowed is None else super().changed

    def summarise(self, summarised: Summarise = summarise) -> TensorSummary:
        """Return the gradient as plain values."""
        if self.tensor is None and self._flowed is None:
            return _without_values(self._like, self._middle)
        return super().summarise(summarised)


def _without_values(like: torch.Tensor, middle: KeptGradient) -> TensorSummary:
    """Summarise a padded gradient whose smaller gradient is unknown."""
    summary = without_values(like)
    summary["note"] = CHANGED if middle.changed or not middle.summary else middle.summary["note"]
    return summary


def _making(padding: Padding) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return torch's backward function for the node; it holds numbers and not the node."""

    def number(name: str, otherwise: int) -> int:
        value = plain_value(padding.node, name)
        value = otherwise if value is None else int(value)
        return value - 2**64 if value >= 2**63 else value  # torch gives it unsigned

    backward, defaults = _PADDING[type(padding.node).__name__]
    sizes, numbers = list(padding.shape), [number(*each) for each in defaults.items()]
    return lambda grad: backward(grad, sizes, *numbers)
